"""Random single statements on live MySQL and MariaDB servers: result, plan and exact lock list.

    python3 observe.py SEED COUNT FILE mysql-9.7=/path/to/socket mariadb-10.11=/path/to/socket ...

writes COUNT random statements, each at three levels on each server, in the format of `footprints.txt`. Then

    ROWS=FILE cargo test -p rowlock-sim --test innodb_footprints -- --ignored rows_of_a_file

says which of them the simulator answers and locks in another way. Needs PyMySQL and a server on which the user
root may do everything: it drops and creates the database `lab`. Where a server lists locks only in its monitor
(MariaDB), they are translated to MySQL's notation.
"""

import random
import re
import sys
import threading

import pymysql

FIX = {
    "l": [
        "create table l (id int primary key, u int null, s int, n int, unique u (u), key s (s))",
        "insert into l values (10,10,10,10),(20,20,20,20),(30,30,20,30),(40,null,30,40)",
        "create table dst (id int primary key, n int)",
    ],
    "l2": [
        "create table l2 (id int primary key, u int not null, a int not null, b int not null, st varchar(8) not null, pri int not null, unique u (u), unique ab (a,b), key sp (st,pri))",
        "insert into l2 values (10,10,1,1,'new',5),(20,20,1,2,'new',3),(30,30,2,1,'new',7),(40,40,2,2,'run',1)",
        "create table dst (id int primary key, n int)",
    ],
    "cp": [
        "create table cp (a int, b int, v int, s int, primary key (a,b), unique uv (v), key s (s))",
        "insert into cp values (1,1,10,5),(1,3,20,5),(2,1,30,7),(2,2,null,7),(3,1,50,9)",
        "create table dst (id int primary key, n int)",
    ],
    "nu": [
        "create table nu (id int primary key, x int, y int, n int, unique xy (x,y), key yn (y))",
        "insert into nu values (1,1,1,0),(3,1,null,0),(5,2,1,0),(7,null,4,0),(9,null,4,1)",
        "create table dst (id int primary key, n int)",
    ],
    "vk": [
        "create table vk (k varchar(8) primary key, g varchar(8) not null, n int not null, key g (g,n))",
        "insert into vk values ('b','x',1),('d','x',3),('f','y',2),('h','z',2)",
        "create table dst (id int primary key, n int)",
    ],
    "nn": [
        "create table nn (u int not null, v int, w int, unique u (u), key v (v))",
        "insert into nn values (5,1,1),(10,2,2),(15,2,3),(20,4,4)",
        "create table dst (id int primary key, n int)",
    ],
    "q": [
        "create table q (id int primary key auto_increment, st varchar(8) not null, due int not null, n int, key sd (st,due))",
        "insert into q values (1,'new',10,0),(2,'new',20,0),(3,'new',30,0),(4,'run',10,0),(5,'run',5,0),(6,'done',1,0)",
        "create table dst (id int primary key, n int)",
    ],
    "fk": [
        "create table p (id int primary key, n int)",
        "create table c (id int primary key, pid int, n int, key pid (pid), constraint f foreign key (pid) references p (id) on delete cascade on update cascade)",
        "insert into p values (1,0),(3,0),(5,0),(7,0)",
        "insert into c values (10,1,0),(20,1,0),(30,3,0),(40,5,0)",
        "create table dst (id int primary key, n int)",
    ],
    "fr": [
        "create table p (id int primary key, n int)",
        "create table c (id int primary key, pid int, n int, key pid (pid), constraint f foreign key (pid) references p (id))",
        "insert into p values (1,0),(3,0),(5,0),(7,0)",
        "insert into c values (10,1,0),(20,1,0),(30,3,0)",
        "create table dst (id int primary key, n int)",
    ],
}
# table -> (fixture, columns {name:(values)}, indexes {name: cols}, pk, insert rows)
T = {
    "l": (
        "l",
        {
            "id": [5, 10, 15, 20, 25, 30, 35, 40, 45],
            "u": [5, 10, 15, 20, 30, 35, 40],
            "s": [5, 10, 15, 20, 25, 30, 35],
            "n": [10, 20, 30, 99],
        },
        {"PRIMARY": ["id"], "u": ["u"], "s": ["s"]},
        "id",
    ),
    "l2": (
        "l2",
        {
            "id": [5, 10, 20, 25, 30, 40, 45],
            "u": [5, 10, 20, 25, 40, 45],
            "a": [0, 1, 2, 3],
            "b": [0, 1, 2, 3],
            "st": ["'a'", "'new'", "'p'", "'run'", "'z'"],
            "pri": [0, 1, 3, 4, 5, 7, 9],
        },
        {"PRIMARY": ["id"], "u": ["u"], "ab": ["a", "b"], "sp": ["st", "pri"]},
        "id",
    ),
    "cp": (
        "cp",
        {"a": [0, 1, 2, 3, 4], "b": [0, 1, 2, 3, 4], "v": [5, 10, 20, 25, 50, 60], "s": [4, 5, 6, 7, 9, 10]},
        {"PRIMARY": ["a", "b"], "uv": ["v"], "s": ["s"]},
        "a",
    ),
    "nu": (
        "nu",
        {"id": [0, 1, 2, 3, 5, 7, 9, 11], "x": [0, 1, 2, 3], "y": [0, 1, 2, 4, 5], "n": [0, 1]},
        {"PRIMARY": ["id"], "xy": ["x", "y"], "yn": ["y"]},
        "id",
    ),
    "vk": (
        "vk",
        {
            "k": ["'a'", "'b'", "'c'", "'d'", "'f'", "'h'", "'k'"],
            "g": ["'w'", "'x'", "'y'", "'z'", "'zz'"],
            "n": [0, 1, 2, 3, 4],
        },
        {"PRIMARY": ["k"], "g": ["g", "n"]},
        "k",
    ),
    "nn": (
        "nn",
        {"u": [0, 5, 7, 10, 15, 20, 25], "v": [0, 1, 2, 3, 4, 5], "w": [1, 2, 9]},
        {"u": ["u"], "v": ["v"]},
        "u",
    ),
    "q": (
        "q",
        {
            "id": [0, 1, 2, 3, 4, 5, 6, 7],
            "st": ["'done'", "'new'", "'o'", "'run'"],
            "due": [0, 5, 10, 15, 20, 30, 40],
            "n": [0, 1],
        },
        {"PRIMARY": ["id"], "sd": ["st", "due"]},
        "id",
    ),
    "p": ("fk", {"id": [0, 1, 2, 3, 5, 7, 8], "n": [0, 1]}, {"PRIMARY": ["id"]}, "id"),
    "c": (
        "fk",
        {"id": [5, 10, 15, 20, 30, 40, 50], "pid": [0, 1, 2, 3, 5, 7], "n": [0, 1]},
        {"PRIMARY": ["id"], "pid": ["pid"]},
        "id",
    ),
}


def gen(r):
    t = r.choice(list(T))
    fx, cols, idx, pk = T[t]
    if fx == "fk" and r.random() < 0.4:
        fx = "fr"
    ix = r.choice(list(idx))
    ic = idx[ix]
    force = f" force index ({ix})" if r.random() < 0.6 else ""
    v = lambda c: r.choice(cols[c])

    def pred(c):
        k = r.random()
        if k < 0.35:
            return f"{c}={v(c)}"
        if k < 0.65:
            return f"{c}{r.choice(['<','<=','>','>='])}{v(c)}"
        if k < 0.75:
            a, b = sorted([v(c), v(c)])
            return f"{c} between {a} and {b}"
        if k < 0.85:
            return (
                f"{c} in ({','.join(str(x) for x in r.sample(cols[c],min(len(cols[c]),r.choice([2,2,3]))))})"
            )
        if k < 0.9:
            return f"{c} is null"
        if k < 0.95:
            a, b = sorted([v(c), v(c)])
            return f"{c}>{a} and {c}<={b}"
        return f"({c}<{v(c)} or {c}>{v(c)})"

    def where():
        k = r.random()
        if k < 0.08:
            return ""
        c0 = ic[0]
        ps = []
        if len(ic) > 1 and r.random() < 0.6:
            ps = [f"{c0}={v(c0)}", pred(ic[1])]
        else:
            ps = [pred(c0)]
        if r.random() < 0.25:
            ps.append(pred(r.choice(list(cols))))
        if r.random() < 0.05:
            return " where " + ps[0] + " or " + pred(r.choice(list(cols)))
        return " where " + " and ".join(ps)

    def order():
        k = r.random()
        if k < 0.6:
            return ""
        d = r.choice(["", " desc"])
        o = " order by " + ",".join(c + d for c in (ic if r.random() < 0.7 else [r.choice(list(cols))]))
        if r.random() < 0.7:
            o += f" limit {r.choice([1,1,2,3])}"
        return o

    def row():
        return (
            "("
            + ",".join(
                (
                    "null"
                    if (
                        t == "l"
                        and c in ("u", "s")
                        or t == "nu"
                        and c in ("x", "y")
                        or t in ("c", "nn")
                        and c in ("pid", "v")
                    )
                    and r.random() < 0.1
                    else str(v(c))
                )
                for c in cols
            )
            + ")"
        )

    k = r.random()
    if k < 0.36:
        sel = r.choice(["*", "*", ",".join(ic), pk, "count(*)"])
        suf = r.choice([" for update", " for update", " lock in share mode", " for update skip locked", ""])
        o = order()
        if sel == "count(*)":
            o = ""
        return fx, f"select {sel} from {t}{force}{where()}{o}{suf}"
    if k < 0.56:
        c = r.choice(list(cols))
        s = f"{c}={v(c)}" if r.random() < 0.6 or isinstance(cols[c][0], str) else f"{c}={c}+1"
        o = order()
        return fx, f"update {t}{force} set {s}{where()}{o}"
    if k < 0.68:
        return fx, f"delete from {t}{where()}{order()}"
    if k < 0.9:
        rows = ",".join(row() for _ in range(r.choice([1, 1, 1, 2])))
        kind = r.choice(["insert into", "insert into", "insert ignore into", "replace into", "odku", "odku"])
        if kind == "odku":
            c = r.choice(list(cols))
            return (
                fx,
                f'insert into {t} values {rows} on duplicate key update {c}={v(c) if r.random()<.5 or isinstance(cols[c][0],str) else c+"+1"}',
            )
        return fx, f"{kind} {t} values {rows}"
    if k < 0.95:
        if isinstance(cols[pk][0], str):
            return gen(r)
        return fx, f"insert into dst select {pk},1 from {t}{force}{where()}"
    c2 = r.choice(list(cols))
    return fx, r.choice(
        [
            f"select * from {t} where {c2}=(select max({c2}) from {t}) for update",
            f"update {t} set {c2}={v(c2)} where {pk} in (select id from dst)",
            f"delete from dst where id in (select {ic[0]} from {t}{where()})",
            f'select x.* from {t} x join {t} y on x.{ic[0]}=y.{ic[0]}{" where x."+ic[0]+"="+str(v(ic[0]))} for update',
            f"set @x=(select max({c2}) from {t}{force}{where()})",
        ]
    )


LV = {"rr": "repeatable read", "rc": "read committed", "ser": "serializable"}
SV = {}


def val(x):
    if x is None:
        return "null"
    if isinstance(x, str):
        return '"' + x + '"'
    if isinstance(x, bytes):
        return '"' + x.decode() + '"'
    return str(x)


def result(cur, fn):
    try:
        n = fn()
    except pymysql.err.Error as e:
        return f"ERROR {e.args[0]} {e.args[1]}"
    if cur.description:
        return (
            "rows [" + ", ".join("[" + ", ".join(val(v) for v in row) + "]" for row in cur.fetchall()) + "]"
        )
    t = f"ok {n}"
    if cur.lastrowid:
        t += f" last_id={cur.lastrowid}"
    w = cur._result.warning_count
    if w:
        t += f" warn={w}"
    return t


def decode(fields, key, types):
    out = []
    for i, f in enumerate(fields[:key]):
        if f is None:
            out.append("NULL")
            continue
        ty = types[i] if i < len(types) else "int"
        if ty == "int":
            out.append(str(int(f, 16) - (1 << (len(f) * 4 - 1))))
        elif ty == "hex":
            out.append("0x" + f)
        else:
            out.append("'" + bytes.fromhex(f).decode() + "'")
    return ", ".join(out)


TY = {}
for n, (fx, cols, idx, pk) in T.items():
    for c in cols:
        TY[(n, c)] = "str" if isinstance(cols[c][0], str) else "int"


def idxcols(t, ix):
    if t == "dst":
        return ["id"]
    idx = T[t][2]
    cols = idx[ix]
    pkc = idx.get("PRIMARY") or idx["u"]
    if ix == "PRIMARY" or (t == "nn" and ix == "u"):
        return cols
    return cols + [c for c in pkc if c not in cols]


def mariadb_locks(adm, db, trx):
    adm.execute("show engine innodb status")
    text = adm.fetchall()[0][2]
    locks = []
    cur = None
    on = False
    for line in text.split("\n"):
        m = re.match(r"---TRANSACTION (\d+|\(0x[0-9a-f]+\))", line)
        if m:
            on = False
        if re.match(r"MariaDB thread id|MySQL thread id", line):
            on = int(re.match(r"\w+ thread id (\d+)", line).group(1)) == trx
        if line.startswith("--------") and "FILE" in line:
            on = False
        if not on:
            continue
        m = re.match(r"TABLE LOCK table `(\w+)`\.`(\w+)` trx id \d+ lock mode (\S+)", line)
        if m:
            locks.append(f'{m[2]} {m[3].replace("AUTO-INC","AUTO_INC")}')
            cur = None
            continue
        m = re.match(
            r"RECORD LOCKS space id \d+ page no \d+ n bits \d+ index (\S+) of table `(\w+)`\.`(\w+)` trx id \d+ lock_?mode (\S+)(.*)",
            line.replace("lock mode", "lock_mode"),
        )
        if m:
            ix, t, mode, rest = m[1].strip("`"), m[3], m[4], m[5]
            if "insert intention" in rest:
                mode = mode + (",INSERT_INTENTION" if True else "")
            elif "gap before rec" in rest:
                mode += ",GAP"
            elif "not gap" in rest:
                mode += ",REC_NOT_GAP"
            cur = (ix, t, mode, " WAITING" if "waiting" in rest else "")
            rec = None
            continue
        m = re.match(r"Record lock, heap no (\d+)(.*)", line)
        if m and cur:
            rec = []
            dm = " (delmark)" if "info bits 32" in m[2] or "info bits 3" in m[2] and "32" in m[2] else ""
            ix, t, mode, w = cur
            if m[1] == "1":
                locks.append(f"{t}.{ix} {mode} {{supremum pseudo-record}}{w}")
                rec = None
            else:
                locks.append([t, ix, mode, rec, dm, w])
            continue
        m = re.match(r" (\d+): len \d+; hex ([0-9a-f]*);", line)
        if m and cur and rec is not None:
            rec.append(m[2])
            continue
        m = re.match(r" (\d+): SQL NULL", line)
        if m and cur and rec is not None:
            rec.append(None)
    out = []
    for l in locks:
        if isinstance(l, str):
            out.append(l)
            continue
        t, ix, mode, rec, dm, w = l
        if ix == "GEN_CLUST_INDEX":
            data = decode(rec, 1, ["hex"])
        else:
            cs = idxcols(t, ix)
            data = decode(rec, len(cs), [TY.get((t, c), "int") for c in cs])
        out.append(f"{t}.{ix} {mode} {{{data}}}{dm}{w}")
    return " | ".join(sorted(out))


def mysql_locks(adm, db, thr):
    adm.execute(
        "select l.object_name,l.index_name,l.lock_mode,l.lock_data,l.lock_status from performance_schema.data_locks l join performance_schema.threads t on t.thread_id=l.thread_id where t.processlist_id=%s and l.object_schema=%s",
        (thr, db),
    )
    out = []
    for o, i, m, d, s in adm.fetchall():
        x = o + (f".{i}" if i else "") + f" {m}"
        if d is not None:
            x += f" {{{d}}}"
        if s == "WAITING":
            x += " WAITING"
        out.append(x)
    return " | ".join(sorted(out))


def serve(server, stmts, out, levels):
    s = SV[server]
    db = "lab"

    def conn():
        return pymysql.connect(unix_socket=s, user="root", autocommit=True)

    adm = conn().cursor()
    adm.execute(f"drop database if exists {db}")
    adm.execute(f"create database {db}")
    adm.execute(f"use {db}")
    maria = server != "mysql-9.7"
    if maria:
        adm.execute("set global innodb_status_output_locks=on")
    cur_fix = None
    dirty = True
    C = {}
    for lv in levels:
        c = conn()
        k = c.cursor()
        k.execute(f"use {db}")
        k.execute("set session transaction isolation level " + LV[lv])
        C[lv] = (c, k)
    for n, (fx, sql) in enumerate(stmts):
        for lv in levels:
            if dirty or cur_fix != fx:
                adm.execute("set foreign_key_checks=0")
                adm.execute("select table_name from information_schema.tables where table_schema=%s", (db,))
                ts = [r[0] for r in adm.fetchall()]
                if ts:
                    adm.execute("drop table " + ",".join(ts))
                adm.execute("set foreign_key_checks=1")
                for q in FIX[fx]:
                    adm.execute(q)
                names = [re.match(r"create table (\w+)", q)[1] for q in FIX[fx] if q.startswith("create")]
                adm.execute("analyze table " + ",".join(names))
                adm.fetchall()
                cur_fix = fx
                dirty = False
            c, k = C[lv]
            k.execute("begin")
            res = result(k, lambda: k.execute(sql))
            plan = ""
            try:
                locks = (mariadb_locks if maria else mysql_locks)(adm, db, c.thread_id())
            except Exception as e:
                locks = "?? " + repr(e)
            k.execute("rollback")
            if not sql.startswith("select"):
                dirty = True
            try:
                adm.execute(("explain " if maria else "explain format=traditional ") + sql)
                d = adm.description
                rows = adm.fetchall()
                names = [x[0] for x in d]
                ti, ki = names.index("type"), names.index("key")
                plan = ",".join(f"{r[ti]}:{r[ki]}" for r in rows)
            except Exception as e:
                plan = "-"
            out[(n, server + "@" + lv)] = (plan, res, locks)


if __name__ == "__main__":
    seed = int(sys.argv[1])
    N = int(sys.argv[2])
    path = sys.argv[3]
    SV.update(server.split("=", 1) for server in sys.argv[4:])
    r = random.Random(seed)
    stmts = []
    seen = set()
    while len(stmts) < N:
        g = gen(r)
        if g not in seen:
            seen.add(g)
            stmts.append(g)
    out = {}
    ths = [threading.Thread(target=serve, args=(s, stmts, out, list(LV))) for s in SV]
    [t.start() for t in ths]
    [t.join() for t in ths]
    with open(path, "w") as f:
        for fx, qs in FIX.items():
            f.write("fixture " + fx + " " + "; ".join(qs) + "\n")
        for n, (fx, sql) in enumerate(stmts):
            f.write(f"\n{fx}: {sql}\n")
            groups = {}
            for server in SV:
                for lv in LV:
                    groups.setdefault(out[(n, server + "@" + lv)], []).append(server + "@" + lv)
            for (p, res, lk), servers in groups.items():
                f.write(f"  {' '.join(servers)}\n    plan {p}\n    {res}\n    locks {lk}\n")

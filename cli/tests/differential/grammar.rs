//! What random expressions are made of on each product.
//!
//! A form is a text with holes. The letter of a hole says what mostly goes into it: `n` a number, `s` a
//! text, `d` a date or time, `j` a document, `b` a condition, `a` anything; one in eight is filled
//! with anything at all, so that conversions are met.

/// A generator of numbers: xorshift, so that every run asks the same.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % below as u64) as usize
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.next(from.len())]
    }
}

/// An expression: a form whose holes are filled.
pub(crate) struct Tree {
    pub(crate) form: &'static str,
    pub(crate) parts: Vec<Tree>,
}

impl Tree {
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let mut parts = self.parts.iter();
        let mut rest = self.form;
        while let Some(hole) = rest
            .find('{')
            .filter(|i| rest.as_bytes().get(i + 2) == Some(&b'}'))
        {
            out.push_str(&rest[..hole]);
            if let Some(part) = parts.next() {
                out.push_str(&part.text());
            }
            rest = &rest[hole + 3..];
        }
        out.push_str(rest);
        out
    }
}

/// Forms of one family.
pub(crate) struct Family {
    letter: u8,
    leaves: &'static [&'static str],
    forms: &'static [&'static str],
}

/// What expressions are made of on one product.
pub(crate) struct Grammar {
    pub(crate) setup: &'static str,
    families: &'static [Family],
    /// `{e}` stands for the expression.
    pub(crate) queries: &'static [&'static str],
}

impl Grammar {
    pub(crate) fn expression(&self, numbers: &mut Numbers) -> Tree {
        let depth = 1 + numbers.next(3) as u32;
        self.tree(numbers, b'a', depth)
    }

    fn tree(&self, numbers: &mut Numbers, letter: u8, depth: u32) -> Tree {
        let anything = letter == b'a' || numbers.next(8) == 0;
        let family = match self.families.iter().find(|family| family.letter == letter) {
            Some(family) if !anything => family,
            _ => &self.families[numbers.next(self.families.len())],
        };
        if depth == 0 || family.forms.is_empty() || numbers.next(6) == 0 {
            return Tree {
                form: family.leaves[numbers.next(family.leaves.len())],
                parts: Vec::new(),
            };
        }
        let form = family.forms[numbers.next(family.forms.len())];
        let mut parts = Vec::new();
        let bytes = form.as_bytes();
        for i in 0..bytes.len() {
            if bytes[i] == b'{' && bytes.get(i + 2) == Some(&b'}') {
                parts.push(self.tree(numbers, bytes[i + 1], depth - 1));
            }
        }
        Tree { form, parts }
    }
}

pub(crate) const SQLITE: Grammar = Grammar {
    setup: "CREATE TABLE t (i INTEGER, r REAL, x TEXT, n NUMERIC, b BLOB, d, c TEXT COLLATE NOCASE, \
        v VARCHAR(10), j TEXT); \
        INSERT INTO t VALUES \
        (1, 1.5, 'abc', '12', x'6162', NULL, 'Abc', 'q', '{\"a\":1,\"b\":[1,\"x\"]}'), \
        ('7', 2, 12, 3.5, 'b', 'x', 'ABC', 7, '[1,2.5,null]'), \
        (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), \
        (-3, 1e3, '1e2', 'z', 4, 0.25, ' a', '', '\"s\"');",
    families: &[
        Family {
            letter: b'n',
            leaves: &[
                "i",
                "r",
                "n",
                "d",
                "0",
                "1",
                "-2",
                "3",
                "10",
                "0.5",
                "2.0",
                "1e3",
                "NULL",
                "9223372036854775807",
            ],
            forms: &[
                "({n} + {n})",
                "({n} - {n})",
                "({n} * {n})",
                "({n} / {n})",
                "({n} % {n})",
                "({n} & {n})",
                "({n} | {n})",
                "({n} << {n})",
                "({n} >> {n})",
                "(- {n})",
                "(+ {a})",
                "(~ {n})",
                "abs({n})",
                "round({n})",
                "round({n}, 1)",
                "sign({n})",
                "length({s})",
                "instr({s}, {s})",
                "unicode({s})",
                "CAST({a} AS INTEGER)",
                "CAST({a} AS REAL)",
                "CAST({a} AS NUMERIC)",
                "json_array_length({j})",
                "json_extract({j}, '$.a')",
                "unixepoch({d})",
                "julianday({d})",
            ],
        },
        Family {
            letter: b's',
            leaves: &[
                "x", "c", "v", "'abc'", "'12'", "'1.5x'", "''", "'B'", "'a%'", "b", "x'61'",
            ],
            forms: &[
                "({s} || {a})",
                "upper({s})",
                "lower({s})",
                "substr({s}, 2)",
                "substr({s}, {n}, 2)",
                "trim({s})",
                "trim({s}, 'a')",
                "ltrim({s})",
                "replace({s}, 'a', {s})",
                "hex({a})",
                "quote({a})",
                "typeof({a})",
                "CAST({a} AS TEXT)",
                "CAST({a} AS BLOB)",
                "({s} COLLATE NOCASE)",
                "datetime({d})",
                "date({d}, '+1 day')",
                "strftime('%Y-%m-%d %H:%M', {d})",
            ],
        },
        Family {
            letter: b'd',
            leaves: &[
                "'2026-11-30'",
                "'2026-11-30 12:00:01'",
                "'2024-02-29 23:59:59.5'",
                "2460000.5",
                "'x'",
            ],
            forms: &[
                "datetime({d}, '+1 hour')",
                "date({d}, 'start of month')",
                "time({d})",
                "datetime(1000000000, 'unixepoch')",
            ],
        },
        Family {
            letter: b'j',
            leaves: &["j", "'{\"a\":1,\"b\":{\"c\":[1,2]}}'", "'[1,2]'", "'3'"],
            forms: &[
                "json({j})",
                "({j} -> '$.b')",
                "({j} -> 1)",
                "({j} ->> '$.a')",
                "({j} ->> 'b')",
                "json_extract({j}, '$')",
                "json_extract({j}, '$.b', '$.a')",
                "json_object('k', {a}, 'l', {j})",
                "json_array({a}, {a})",
                "json_set({j}, '$.a', {a})",
                "json_set({j}, '$.z', {a})",
                "json_insert({j}, '$.a', {a}, '$.q', 1)",
                "json_replace({j}, '$.a', {a})",
                "json_remove({j}, '$.a')",
                "json_type({j})",
                "json_type({j}, '$.b')",
                "json_quote({a})",
                "json_valid({a})",
            ],
        },
        Family {
            letter: b'b',
            leaves: &["TRUE", "FALSE", "i", "NULL", "1"],
            forms: &[
                "({a} = {a})",
                "({n} <> {n})",
                "({a} < {a})",
                "({n} <= {n})",
                "({a} > {a})",
                "({n} >= {n})",
                "({a} IS {a})",
                "({a} IS NOT {a})",
                "({b} AND {b})",
                "({b} OR {b})",
                "(NOT {b})",
                "({a} BETWEEN {a} AND {a})",
                "({a} NOT BETWEEN {n} AND {n})",
                "({a} IN ({a}, {a}))",
                "({a} NOT IN ({n}, {a}))",
                "({a} IS NULL)",
                "({a} NOTNULL)",
                "({s} LIKE {s})",
                "({s} NOT LIKE 'A%')",
                "({s} GLOB 'a*')",
                "({b} IS TRUE)",
                "({b} IS NOT FALSE)",
                "({a} IS NOT DISTINCT FROM {a})",
                "EXISTS (SELECT 1 FROM t u WHERE u.i = {n})",
                "({n} IN (SELECT i FROM t))",
            ],
        },
        Family {
            letter: b'a',
            leaves: &["i", "x", "NULL", "b"],
            forms: &[
                "coalesce({a}, {a})",
                "ifnull({a}, {a})",
                "nullif({a}, {a})",
                "max({a}, {a})",
                "min({a}, {a}, {a})",
                "iif({b}, {a}, {a})",
                "CASE WHEN {b} THEN {a} ELSE {a} END",
                "CASE {a} WHEN {a} THEN {a} END",
                "(SELECT max({a}) FROM t)",
                "(SELECT x FROM t WHERE i = {n})",
            ],
        },
    ],
    queries: &[
        "SELECT rowid FROM t WHERE {e}",
        "SELECT count(*), min({e}), max({e}), sum({e}) FROM t",
        "SELECT rowid FROM t ORDER BY {e}, rowid",
        "SELECT {e}, typeof({e}) FROM t",
        "SELECT {e}, count(*) FROM t GROUP BY {e} ORDER BY 1",
        "SELECT DISTINCT {e} FROM t ORDER BY 1",
    ],
};

/// The families that MySQL and MariaDB have in common, and what one has more.
macro_rules! mysql {
    ($json:expr, $more:expr) => {
        Grammar {
            setup: "CREATE TABLE t (id INT PRIMARY KEY, ti TINYINT, si SMALLINT, i INT, b BIGINT, \
                ui INT UNSIGNED, ub BIGINT UNSIGNED, d DECIMAL(8,2), f DOUBLE, v VARCHAR(10), \
                c CHAR(5), x TEXT, dt DATE, ts DATETIME, t6 DATETIME(6), tm TIME, j JSON); \
                INSERT INTO t VALUES \
                (1, 1, 1, 1, 10, 1, 1, 1.50, 0.5, 'abc', 'ab', 'xyz', '2026-11-30', \
                 '2026-11-30 12:00:01', '2026-11-30 12:00:01.123456', '10:11:12', \
                 '{\"a\": 1, \"b\": [1, 2]}'), \
                (2, -2, 300, -7, 3000000000, 7, 9, 12.25, 100, '12', '7', '', '2024-02-29', \
                 '2024-02-29 23:59:59', '2024-02-29 23:59:59.5', '23:00:00', '[1, \"x\"]'), \
                (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
                 NULL, NULL, NULL), \
                (4, 0, -5, 0, -1, 0, 4294967296, 0, -2.5, 'ABC', 'Ab', '1.5x', '1999-12-31', \
                 '1999-12-31 00:00:00', '1999-12-31 00:00:00', '00:00:00', '\"s\"')",
            families: &[
                Family {
                    letter: b'n',
                    leaves: &[
                        "ti", "si", "i", "b", "ui", "d", "f", "0", "1", "-2", "3", "10", "0.5",
                        "2.25", "1e1", "NULL", "TRUE", "1000000", "12345678901", "ub",
                    ],
                    forms: &[
                        "({n} + {n})",
                        "({n} - {n})",
                        "({n} * {n})",
                        "({n} / {n})",
                        "({n} % {n})",
                        "({n} DIV {n})",
                        "(- {n})",
                        "({n} & {n})",
                        "({n} | {n})",
                        "ABS({n})",
                        "ROUND({n})",
                        "ROUND({n}, 1)",
                        "FLOOR({n})",
                        "CEIL({n})",
                        "SIGN({n})",
                        "TRUNCATE({n}, 1)",
                        "MOD({n}, {n})",
                        "LENGTH({s})",
                        "CHAR_LENGTH({s})",
                        "INSTR({s}, {s})",
                        "LOCATE({s}, {s})",
                        "ASCII({s})",
                        "STRCMP({s}, {s})",
                        "FIELD({s}, {s}, {s})",
                        "FIND_IN_SET({s}, 'a,b,abc')",
                        "CAST({a} AS SIGNED)",
                        "CAST({n} AS UNSIGNED)",
                        "CAST({n} AS DECIMAL(10,2))",
                        "CAST({n} AS DOUBLE)",
                        "UNIX_TIMESTAMP({d})",
                        "YEAR({d})",
                        "MONTH({d})",
                        "DAY({d})",
                        "HOUR({d})",
                        "SECOND({d})",
                        "DATEDIFF({d}, {d})",
                        "TO_DAYS({d})",
                        "DAYOFWEEK({d})",
                        "TIMESTAMPDIFF(SECOND, {d}, {d})",
                        "TIMESTAMPDIFF(MONTH, {d}, {d})",
                        "BIT_COUNT({n})",
                    ],
                },
                Family {
                    letter: b's',
                    leaves: &["v", "c", "x", "'abc'", "'12'", "''", "'B'", "'a'", "'1.5'"],
                    forms: &[
                        "CONCAT({s}, {a})",
                        "CONCAT_WS(',', {s}, {a})",
                        "UPPER({s})",
                        "LOWER({s})",
                        "LEFT({s}, 2)",
                        "RIGHT({s}, 1)",
                        "SUBSTRING({s}, 2)",
                        "SUBSTRING({s}, 1, 2)",
                        "TRIM({s})",
                        "LTRIM({s})",
                        "REPLACE({s}, 'a', 'bb')",
                        "LPAD({s}, 5, 'x')",
                        "REPEAT({s}, 2)",
                        "REVERSE({s})",
                        "CAST({a} AS CHAR)",
                        "CAST({s} AS CHAR(2))",
                        "HEX({s})",
                        "HEX(i)",
                        "ELT({n}, {s}, {s})",
                        "QUOTE({s})",
                        "SHA2({s}, 256)",
                        "DATE_FORMAT({d}, '%Y-%m-%d %H:%i:%s')",
                    ],
                },
                Family {
                    letter: b'd',
                    leaves: &["dt", "ts", "t6", "DATE'2026-01-31'", "TIMESTAMP'2026-01-31 10:00:00'"],
                    forms: &[
                        "DATE_ADD({d}, INTERVAL {n} SECOND)",
                        "DATE_SUB({d}, INTERVAL 1 DAY)",
                        "({d} + INTERVAL 1 MONTH)",
                        "({d} - INTERVAL 90 MINUTE)",
                        "DATE_ADD({d}, INTERVAL 1 MICROSECOND)",
                        "TIMESTAMPADD(HOUR, 1, {d})",
                        "DATE({d})",
                        "TIMESTAMP({d})",
                        "LAST_DAY({d})",
                        "FROM_UNIXTIME({n})",
                        "CAST({d} AS DATE)",
                        "CAST({d} AS DATETIME)",
                        "CAST({d} AS DATETIME(3))",
                        "CAST({d} AS TIME)",
                    ],
                },
                Family {
                    letter: b'b',
                    leaves: &["TRUE", "FALSE", "i", "1", "(i = 1)"],
                    forms: &[
                        "({n} = {n})",
                        "({s} = {s})",
                        "({d} = {d})",
                        "({a} = {a})",
                        "({n} <> {n})",
                        "({n} < {n})",
                        "({d} <= {d})",
                        "({s} > {s})",
                        "({n} >= {n})",
                        "({a} <=> {a})",
                        "({b} AND {b})",
                        "({b} OR {b})",
                        "({b} XOR {b})",
                        "(NOT {b})",
                        "({n} BETWEEN {n} AND {n})",
                        "({d} BETWEEN {d} AND {d})",
                        "({n} IN ({n}, {n}))",
                        "({s} NOT IN ({s}, {s}))",
                        "({a} IS NULL)",
                        "({b} IS TRUE)",
                        "({b} IS NOT FALSE)",
                        "({s} LIKE '%b_')",
                        "({s} LIKE {s})",
                        "(({n}, {s}) = ({n}, {s}))",
                        "EXISTS (SELECT 1 FROM t u WHERE u.i = {n})",
                        "({n} IN (SELECT i FROM t u))",
                        "({n} > ALL (SELECT ti FROM t u WHERE ti IS NOT NULL))",
                        "ISNULL({a})",
                        "({s} REGEXP '^a')",
                    ],
                },
                Family {
                    letter: b'a',
                    leaves: &["i", "v", "NULL", "d", "ts"],
                    forms: &[
                        "COALESCE({n}, {n})",
                        "COALESCE({s}, {s})",
                        "COALESCE({d}, {d})",
                        "COALESCE({a}, {a})",
                        "IFNULL({n}, {n})",
                        "IFNULL({a}, {a})",
                        "NULLIF({n}, {n})",
                        "NULLIF({s}, {s})",
                        "IF({b}, {n}, {n})",
                        "IF({b}, {a}, {a})",
                        "CASE WHEN {b} THEN {n} ELSE {n} END",
                        "CASE WHEN {b} THEN {a} ELSE {a} END",
                        "CASE {n} WHEN {n} THEN {s} END",
                        "GREATEST({n}, {n})",
                        "LEAST({n}, {n}, {n})",
                        "GREATEST({s}, {s})",
                        "LEAST({d}, {d})",
                        "(SELECT MAX({n}) FROM t u)",
                        "(SELECT v FROM t u WHERE u.id = 1)",
                    ],
                },
                $json,
                $more,
            ],
            queries: &[
                "SELECT id FROM t WHERE {e} ORDER BY id",
                "SELECT {e} FROM t ORDER BY id",
                "SELECT {e} FROM t ORDER BY id",
                "SELECT {e} FROM t ORDER BY id",
                "SELECT id FROM t ORDER BY {e}, id",
                "SELECT COUNT(*), MIN({e}), MAX({e}) FROM t",
                "SELECT COUNT({e}), SUM({e}), AVG({e}) FROM t",
                "SELECT DISTINCT {e} FROM t ORDER BY 1",
            ],
        }
    };
}

pub(crate) const MYSQL: Grammar = mysql!(
    Family {
        letter: b'j',
        leaves: &["j", "'{\"a\": 1, \"b\": [1, 2]}'", "'[1, 2]'"],
        forms: &[
            "(j -> '$.a')",
            "(j ->> '$.a')",
            "(j ->> '$.b[1]')",
            "JSON_EXTRACT({j}, '$.a')",
            "JSON_UNQUOTE(JSON_EXTRACT({j}, '$.b'))",
            "JSON_OBJECT('k', {a}, 'l', {j})",
            "JSON_ARRAY({n}, {s})",
            "JSON_SET({j}, '$.a', {n})",
            "JSON_SET({j}, '$.z', {s})",
            "JSON_INSERT({j}, '$.a', {n}, '$.q', 1)",
            "JSON_REPLACE({j}, '$.a', {s})",
            "JSON_REMOVE({j}, '$.a')",
            "JSON_LENGTH({j})",
            "JSON_TYPE({j})",
            "JSON_VALID({j})",
            "JSON_CONTAINS({j}, '1')",
        ],
    },
    Family {
        letter: b'?',
        leaves: &["CAST('7' AS SIGNED)"],
        forms: &["ANY_VALUE({n})"],
    }
);

pub(crate) const MARIADB: Grammar = mysql!(
    Family {
        letter: b'j',
        leaves: &["j", "'{\"a\": 1, \"b\": [1, 2]}'", "'[1, 2]'"],
        forms: &[
            "JSON_EXTRACT({j}, '$.a')",
            "JSON_UNQUOTE(JSON_EXTRACT({j}, '$.b'))",
            "JSON_OBJECT('k', {n}, 'l', {s})",
            "JSON_ARRAY({n}, {s})",
            "JSON_SET({j}, '$.a', {n})",
            "JSON_SET({j}, '$.z', {s})",
            "JSON_REPLACE({j}, '$.a', {s})",
            "JSON_REMOVE({j}, '$.a')",
            "JSON_LENGTH({j})",
            "JSON_TYPE({j})",
            "JSON_VALID({j})",
        ],
    },
    Family {
        letter: b'?',
        leaves: &["CAST('7' AS SIGNED)"],
        forms: &["NVL({n}, {n})"],
    }
);

//! Results as the tester prints them.

use rowlock_model::{DbError, ErrorClass, Reply, Value};

/// How results are printed.
#[derive(Clone, Debug, Default)]
pub(super) struct Manner {
    /// One line a value.
    pub(super) is_vertical: bool,
    /// Rows sorted, for one statement.
    pub(super) is_sorted: bool,
    /// Columns (from 1) with another text in their place, for one statement.
    pub(super) columns: Vec<(usize, String)>,
    /// Texts replaced, for one statement.
    pub(super) texts: Vec<(String, String)>,
}

impl Manner {
    /// Back to what holds for every statement.
    pub(super) fn forget(&mut self) {
        self.is_sorted = false;
        self.columns.clear();
        self.texts.clear();
    }

    fn replaced(&self, mut text: String) -> String {
        for (from, to) in &self.texts {
            text = text.replace(from, to);
        }
        text
    }

    /// A result set.
    pub(super) fn rows(&self, reply: &Reply) -> String {
        let names: Vec<&str> = reply.columns.iter().map(|c| &*c.name).collect();
        let mut rows: Vec<Vec<String>> = Vec::new();
        for row in reply.rows.iter() {
            let mut values: Vec<String> = row.iter().map(text).collect();
            for (column, text) in &self.columns {
                if let Some(value) = column.checked_sub(1).and_then(|i| values.get_mut(i)) {
                    value.clone_from(text);
                }
            }
            rows.push(values);
        }
        let mut lines: Vec<String> = Vec::new();
        if self.is_vertical {
            for row in &rows {
                lines.extend(names.iter().zip(row).map(|(n, v)| format!("{n}\t{v}\n")));
            }
            return self.replaced(lines.concat());
        }
        lines.extend(rows.iter().map(|row| row.join("\t") + "\n"));
        if self.is_sorted {
            lines.sort();
        }
        self.replaced(names.join("\t") + "\n" + &lines.concat())
    }

    /// `ERROR 23000: ...`
    pub(super) fn error(&self, error: &DbError) -> String {
        let (state, message) = match error.class {
            ErrorClass::ConnectionLost => ("HY000", "Lost connection to server during query"),
            _ => (sqlstate(&error.code), &*error.message),
        };
        self.replaced(format!("ERROR {state}: {message}\n"))
    }

    /// Other text of this statement.
    pub(super) fn text(&self, text: &str) -> String {
        self.replaced(text.to_owned())
    }
}

/// A value as the text protocol sends it.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Bool(b) => i64::from(*b).to_string(),
        value => value.to_string(),
    }
}

/// The SQLSTATE of an error number (MySQL manual, "Server Error Message Reference").
fn sqlstate(code: &str) -> &'static str {
    match code {
        "1022" | "1048" | "1052" | "1062" | "1169" | "1216" | "1217" | "1451" | "1452" | "1557"
        | "1586" | "1761" | "1762" => "23000",
        "1205" => "HY000",
        "1213" | "1613" => "40001",
        "1050" => "42S01",
        "1051" | "1109" | "1146" => "42S02",
        "1054" | "1247" => "42S22",
        "1060" => "42S21",
        "1136" => "21S01",
        "1222" | "1241" | "1242" => "21000",
        "1264" | "1690" => "22003",
        "1406" => "22001",
        "1292" => "22007",
        "1317" => "70100",
        "1044" | "1049" | "1055" | "1056" | "1057" | "1059" | "1061" | "1063" | "1064" | "1065"
        | "1066" | "1067" | "1068" | "1069" | "1070" | "1071" | "1072" | "1073" | "1074"
        | "1075" | "1083" | "1084" | "1090" | "1091" | "1101" | "1102" | "1103" | "1104"
        | "1106" | "1107" | "1110" | "1112" | "1113" | "1115" | "1118" | "1120" | "1121"
        | "1131" | "1132" | "1133" | "1138" | "1139" | "1140" | "1141" | "1142" | "1143"
        | "1144" | "1145" | "1147" | "1148" | "1149" | "1162" | "1163" | "1164" | "1166"
        | "1167" | "1170" | "1171" | "1172" | "1173" | "1176" | "1177" | "1178" | "1203"
        | "1211" | "1226" | "1230" | "1231" | "1232" | "1234" | "1235" | "1239" | "1248"
        | "1250" | "1252" | "1253" | "1280" | "1281" | "1286" | "1304" | "1305" | "1327"
        | "1414" | "1582" | "1583" | "1584" | "3057" | "4163" => "42000",
        "1045" => "28000",
        "1314" => "0A000",
        "1568" => "25001",
        "1792" => "25006",
        _ => "HY000",
    }
}

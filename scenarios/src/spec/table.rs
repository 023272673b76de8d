//! Rows of a result as the tester prints them: libpq's aligned format without outer borders.

use super::bench::Table;

/// Whether a value makes its column count as text: it would not pass for a number.
fn is_text(value: &str) -> bool {
    let bytes = value.as_bytes();
    let number =
        |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'E' | b'e' | b' ' | b'-');
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            matches!(first, b'E' | b'e') || !last.is_ascii_digit() || !bytes.iter().all(number)
        }
        _ => false,
    }
}

/// Prints a table, its row count and an empty line. A table without columns prints nothing.
pub(super) fn print(table: &Table, out: &mut String) {
    if table.columns.is_empty() {
        return;
    }
    let cell = |row: &[Option<String>], column: usize| -> String {
        row.get(column).cloned().flatten().unwrap_or_default()
    };
    let count = table.columns.len();
    let mut widths: Vec<usize> = table.columns.iter().map(String::len).collect();
    let mut left = vec![false; count];
    for row in &table.rows {
        for column in 0..count {
            let value = cell(row, column);
            widths[column] = widths[column].max(value.len());
            left[column] |= is_text(&value);
        }
    }
    let line = |cells: Vec<String>, out: &mut String| {
        for (column, text) in cells.iter().enumerate() {
            if column > 0 {
                out.push('|');
            }
            let blanks = " ".repeat(widths[column].saturating_sub(text.len()));
            if left[column] {
                out.push_str(text);
                out.push_str(&blanks);
            } else {
                out.push_str(&blanks);
                out.push_str(text);
            }
        }
        out.push('\n');
    };
    line(table.columns.clone(), out);
    let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    out.push_str(&dashes.join("+"));
    out.push('\n');
    for row in &table.rows {
        line((0..count).map(|column| cell(row, column)).collect(), out);
    }
    let plural = if table.rows.len() == 1 { "" } else { "s" };
    out.push_str(&format!("({} row{plural})\n\n", table.rows.len()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(columns: &[&str], rows: &[&[Option<&str>]]) -> String {
        let table = Table {
            columns: columns.iter().map(|c| (*c).to_owned()).collect(),
            rows: rows
                .iter()
                .map(|row| row.iter().map(|v| v.map(str::to_owned)).collect())
                .collect(),
        };
        let mut out = String::new();
        print(&table, &mut out);
        out
    }

    #[test]
    fn numbers_stand_right_and_text_stands_left() {
        let rows: &[&[Option<&str>]] = &[&[Some("1"), Some("w1")], &[Some("10"), Some("new")]];
        assert_eq!(
            printed(&["id", "st"], rows),
            "id|st \n--+---\n 1|w1 \n10|new\n(2 rows)\n\n"
        );
        assert_eq!(printed(&["id"], &[]), "id\n--\n(0 rows)\n\n");
    }

    #[test]
    fn nulls_count_for_neither() {
        assert_eq!(printed(&["max"], &[&[None]]), "max\n---\n   \n(1 row)\n\n");
        assert_eq!(
            printed(&["x"], &[&[Some("-1")], &[Some("")]]),
            " x\n--\n-1\n  \n(2 rows)\n\n"
        );
        assert_eq!(
            printed(&["xxx"], &[&[Some("1.")]]),
            "xxx\n---\n1. \n(1 row)\n\n"
        );
    }
}

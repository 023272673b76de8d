//! An error at a place in a file, in the look of rustc.

use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file as the user named it.
    pub path: String,
    /// The whole text of the file; empty if it is not to be shown.
    pub source: String,
    /// One sentence without a full stop.
    pub title: String,
    /// The bytes of `source` that are meant, if any are.
    pub span: Option<Range<usize>>,
    /// What to say at that place.
    pub label: String,
    /// What helps.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error that concerns a file as a whole.
    pub fn file(path: impl Into<String>, title: impl Into<String>) -> Diagnostic {
        Diagnostic {
            path: path.into(),
            source: String::new(),
            title: title.into(),
            span: None,
            label: String::new(),
            help: None,
        }
    }

    /// Draws it, without a newline at the end.
    pub fn render(&self, colour: bool, width: usize) -> String {
        let mut report = vec![self.primary()];
        if let Some(help) = &self.help {
            report.push(Group::with_title(Level::HELP.secondary_title(help)));
        }
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer
            .decor_style(DecorStyle::Ascii)
            .term_width(width)
            .render(&report)
    }

    fn primary(&self) -> Group<'_> {
        let Some(span) = &self.span else {
            let title = format!("{}: {}", self.path, self.title);
            return Group::with_title(Level::ERROR.primary_title(title));
        };
        let annotation = AnnotationKind::Primary.span(self.clamp(span));
        let annotation = if self.label.is_empty() {
            annotation
        } else {
            annotation.label(&self.label)
        };
        Level::ERROR.primary_title(&self.title).element(
            Snippet::source(&self.source)
                .path(&self.path)
                .annotation(annotation),
        )
    }

    /// A span inside of the text, on character boundaries, whatever it was before.
    fn clamp(&self, span: &Range<usize>) -> Range<usize> {
        let floor = |at: usize| {
            let at = at.min(self.source.len());
            (0..=at)
                .rev()
                .find(|i| self.source.is_char_boundary(*i))
                .unwrap_or(0)
        };
        let start = floor(span.start);
        start..floor(span.end).max(start)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn points_into_the_text() {
        let source = "title = \"x\"\nsql = '''\nSELEC 1\n'''\n";
        let at = source.find("SELEC").unwrap();
        let diagnostic = Diagnostic {
            path: "a/b.toml".into(),
            source: source.into(),
            title: "this is no SQL".into(),
            span: Some(at..at + 5),
            label: "expected a statement".into(),
            help: Some("write SELECT".into()),
        };
        expect![[r#"
            error: this is no SQL
             --> a/b.toml:3:1
              |
            3 | SELEC 1
              | ^^^^^ expected a statement
              |
            help: write SELECT"#]]
        .assert_eq(&diagnostic.render(false, 80));
    }

    #[test]
    fn a_file_without_a_place_and_a_place_without_sense() {
        let whole = Diagnostic::file("x.toml", "no such file");
        expect!["error: x.toml: no such file"].assert_eq(&whole.render(false, 80));
        let mut odd = Diagnostic::file("x.toml", "cut short");
        odd.source = "ä".into();
        odd.span = Some(1..900);
        assert!(odd.render(false, 80).contains("x.toml:1:1"));
    }
}

//! Colours by meaning.

use anstyle::{AnsiColor, Color, Style};

/// The style of each kind of text. [`Palette::plain`] leaves every text as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Palette {
    /// As it should be.
    pub good: Style,
    /// A violation, a refusal, a difference.
    pub bad: Style,
    /// Waiting, incomplete, vacuous.
    pub warn: Style,
    /// What a reader may skip.
    pub dim: Style,
    /// Titles and names.
    pub strong: Style,
}

impl Palette {
    /// No escape sequences at all.
    pub fn plain() -> Palette {
        Palette::default()
    }

    /// The terminal's own sixteen colours, so that light and dark themes both work.
    pub fn coloured() -> Palette {
        let colour = |c: AnsiColor| Style::new().fg_color(Some(Color::Ansi(c)));
        Palette {
            good: colour(AnsiColor::Green),
            bad: colour(AnsiColor::Red).bold(),
            warn: colour(AnsiColor::Yellow),
            dim: Style::new().dimmed(),
            strong: Style::new().bold(),
        }
    }
}

/// `text` in `style`, reset afterwards; unchanged if the style is plain.
pub fn paint(style: Style, text: &str) -> String {
    if style.is_plain() || text.is_empty() {
        return text.to_owned();
    }
    format!("{style}{text}{style:#}")
}

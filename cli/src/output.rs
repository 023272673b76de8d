//! Standard output and error: width, colour, broken pipes.

use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use rowlock_reports::style::paint;
use rowlock_reports::{Manner, Palette};

use crate::args::{Colour, Global};
use crate::exit::Failure;

/// The width used where there is no terminal to ask.
const WIDTH_WITHOUT_TERMINAL: usize = 100;

/// Where results go, and in which manner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// For results on standard output.
    pub(crate) manner: Manner,
    /// Whether a progress line may be drawn.
    pub(crate) progress: bool,
    /// Colour on standard error.
    colour_errors: bool,
}

impl Output {
    /// Looks at the terminal and the environment once.
    pub(crate) fn new(global: &Global) -> Output {
        let colour_output = wanted(global.color, || AutoStream::choice(&io::stdout()));
        let width = terminal_size::terminal_size().map(|(w, _)| usize::from(w.0));
        Output {
            manner: Manner {
                width: width.unwrap_or(WIDTH_WITHOUT_TERMINAL).clamp(40, 200),
                palette: if colour_output {
                    Palette::coloured()
                } else {
                    Palette::plain()
                },
                verbose: global.verbose,
            },
            progress: !global.quiet && io::stderr().is_terminal(),
            colour_errors: wanted(global.color, || AutoStream::choice(&io::stderr())),
        }
    }

    /// Writes text as it is, and lets the reader see it at once.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()?;
        Ok(())
    }

    /// Writes one line.
    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        self.write(&format!("{text}\n"))
    }

    /// Says on standard error why a command could not do its work.
    pub(crate) fn failure(&self, failure: &Failure) {
        match failure {
            Failure::BrokenPipe => {}
            Failure::Files(problems) => {
                for problem in problems {
                    self.error_line(&problem.render(self.colour_errors, self.manner.width));
                }
            }
            other => {
                let palette = if self.colour_errors {
                    Palette::coloured()
                } else {
                    Palette::plain()
                };
                self.error_line(&format!("{} {other}", paint(palette.bad, "error:")));
            }
        }
    }

    /// A line on standard error. If that is closed, nobody can be told.
    pub(crate) fn error_line(&self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

fn wanted(colour: Colour, auto: impl FnOnce() -> ColorChoice) -> bool {
    match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => auto() != ColorChoice::Never,
    }
}

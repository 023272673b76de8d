//! Standard output and error: width, colour, broken pipes.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use indicatif::{ProgressBar, ProgressStyle};
use rowlock_reports::layout::{counted, grouped};
use rowlock_reports::style::paint;
use rowlock_reports::{Manner, Palette};

use rowlock_sim::explore::Progress;

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
        let width = terminal_size::terminal_size_of(io::stdout()).map(|(w, _)| usize::from(w.0));
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

/// Drawn anew at most so often.
const REDRAW: Duration = Duration::from_millis(100);

/// A line on standard error that says how far a long search is. Silent where nobody would see it.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    bar: Option<ProgressBar>,
    drawn: Cell<Duration>,
}

impl ProgressLine {
    /// A line for the case `name`.
    pub(crate) fn new(output: &Output, name: &str) -> ProgressLine {
        let bar = output.progress.then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_prefix(name.to_owned());
            // The template is a constant of this program.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}  {msg}") {
                bar.set_style(style);
            }
            bar
        });
        ProgressLine {
            bar,
            drawn: Cell::new(Duration::ZERO),
        }
    }

    /// No line: several searches run at the same time.
    pub(crate) fn silent() -> ProgressLine {
        ProgressLine {
            bar: None,
            drawn: Cell::new(Duration::ZERO),
        }
    }

    /// Shows how far the search is.
    pub(crate) fn update(&self, progress: &Progress, elapsed: Duration) {
        let Some(bar) = &self.bar else { return };
        if elapsed.saturating_sub(self.drawn.get()) < REDRAW {
            return;
        }
        self.drawn.set(elapsed);
        let rate = progress.transitions as f64 / elapsed.as_secs_f64().max(0.001);
        let mut message = format!(
            "{}, {} steps/s, depth {}, {} MiB",
            counted(progress.states, "state"),
            grouped(rate as u64),
            progress.depth,
            progress.memory_bytes >> 20,
        );
        if progress.executions > 0 {
            message = format!("{}, {message}", counted(progress.executions, "run"));
        }
        bar.set_message(message);
        bar.tick();
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

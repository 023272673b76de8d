//! A schedule for a person: one column a session, one event a row, time downwards.
//!
//! ```text
//!         worker-1                        worker-2
//!      1  begin: BEGIN → ok
//! ●    2  take: UPDATE job SET … WHERE …
//!         → 1 affected
//!      3                                  take: UPDATE job SET … WHERE …
//!                                         → waits for worker-1
//!      4  commit: COMMIT → ok             │
//! ●    5                                  take goes on → 1 affected
//!      6  ──────── worker-1 crashes ───────────────────────────────────
//! ```

use std::collections::BTreeMap;

use anstyle::Style;
use rowlock_model::schedule::{Loss, Statement};

use crate::frame::{Frame, Kind, Tone};
use crate::layout::{cut, duration, filler, width};
use crate::shorten::{one_line, shorten};
use crate::style::{Palette, paint};

/// The narrowest useful column.
const LANE_MIN: usize = 18;
/// Blanks between two columns.
const GAP: usize = 2;

/// What to draw, and how.
#[derive(Clone, Debug)]
pub struct Lanes<'a> {
    /// The events, in order.
    pub frames: &'a [Frame],
    /// Indices of the events that make up a violation.
    pub matters: &'a [usize],
    /// A remark to an event, by index: what a replay saw instead, for example.
    pub notes: BTreeMap<usize, String>,
    /// Columns of the terminal.
    pub width: usize,
    /// Colours.
    pub palette: Palette,
    /// List every statement in full, not only those that were shortened.
    pub verbose: bool,
}

impl<'a> Lanes<'a> {
    /// Lanes of `frames` without marks, remarks and colour.
    pub fn new(frames: &'a [Frame], width: usize) -> Lanes<'a> {
        Lanes {
            frames,
            matters: &[],
            notes: BTreeMap::new(),
            width,
            palette: Palette::plain(),
            verbose: false,
        }
    }

    /// The lanes, and below them the statements that had to be shortened. Ends with a newline
    /// unless there is no event.
    pub fn render(&self) -> String {
        if self.frames.is_empty() {
            return String::new();
        }
        let mut drawing = Drawing::new(self);
        drawing.header();
        for (index, frame) in self.frames.iter().enumerate() {
            drawing.frame(index, frame);
        }
        let Drawing {
            mut out, shortened, ..
        } = drawing;
        out.push_str(&self.statements(&shortened));
        out
    }

    /// Outcomes that may have been cut, in full.
    fn outcomes(&self) -> String {
        let mut out = String::new();
        for (index, frame) in self.frames.iter().enumerate() {
            if let Some(said) = &frame.outcome
                && (said.tone == Tone::Refused || width(&said.text) > LANE_MIN)
            {
                out.push_str(&format!("{:>6}  → {}\n", index + 1, said.text));
            }
        }
        if out.is_empty() {
            out
        } else {
            format!("\n{out}")
        }
    }

    /// Statements in full, each once, with the numbers of its events.
    fn statements(&self, shortened: &[bool]) -> String {
        let mut order: Vec<&Statement> = Vec::new();
        let mut numbers: Vec<Vec<String>> = Vec::new();
        for (index, frame) in self.frames.iter().enumerate() {
            let Some(statement) = &frame.statement else {
                continue;
            };
            if !self.verbose && !shortened[index] && statement.args.is_empty() {
                continue;
            }
            let number = (index + 1).to_string();
            match order.iter().position(|s| *s == statement) {
                Some(at) => numbers[at].push(number),
                None => {
                    order.push(statement);
                    numbers.push(vec![number]);
                }
            }
        }
        let mut out = String::new();
        let numbers: Vec<String> = numbers.iter().map(|n| n.join(", ")).collect();
        let column = numbers
            .iter()
            .map(String::len)
            .max()
            .unwrap_or(0)
            .clamp(6, 16);
        for (statement, numbers) in order.iter().zip(&numbers) {
            if out.is_empty() {
                out.push('\n');
            }
            out.push_str(&paint(self.palette.dim, &format!("{numbers:>column$}")));
            out.push_str(&in_full(statement, column + 2));
        }
        if self.verbose {
            out.push_str(&self.outcomes());
        }
        out
    }
}

/// The text as written, indented, with its arguments.
fn in_full(statement: &Statement, indent: usize) -> String {
    let mut out = String::new();
    let lines: Vec<&str> = statement.sql.trim().lines().collect();
    // Blanks that all following lines share belong to the file the statement came from.
    let shared = lines.iter().skip(1).filter(|l| !l.trim().is_empty());
    let shared = shared
        .map(|l| l.len() - l.trim_start_matches(' ').len())
        .min();
    for (i, line) in lines.iter().enumerate() {
        let cut = if i == 0 {
            0
        } else {
            shared.unwrap_or(0).min(line.len())
        };
        let blanks = if i == 0 { 2 } else { indent };
        out.push_str(format!("{:blanks$}{}", "", &line[cut..]).trim_end());
        out.push('\n');
    }
    if !statement.args.is_empty() {
        let args: Vec<String> = statement.args.iter().map(ToString::to_string).collect();
        out.push_str(&format!("{:indent$}arguments: {}\n", "", args.join(", ")));
    }
    out
}

/// One line of a cell.
struct Cell {
    text: String,
    style: Style,
}

/// The text under construction, and which sessions are blocked at this point.
struct Drawing<'a> {
    lanes: &'a Lanes<'a>,
    labels: Vec<&'a str>,
    blocked: Vec<bool>,
    lane_width: usize,
    gutter: usize,
    shortened: Vec<bool>,
    out: String,
}

impl<'a> Drawing<'a> {
    fn new(lanes: &'a Lanes<'a>) -> Drawing<'a> {
        let labels = labels(lanes.frames);
        let digits = lanes.frames.len().to_string().len().max(2);
        let gutter = 2 + digits + 2;
        let n = labels.len().max(1);
        let room = lanes.width.saturating_sub(gutter + GAP * (n - 1)) / n;
        Drawing {
            lanes,
            blocked: vec![false; labels.len()],
            lane_width: room.max(LANE_MIN),
            gutter,
            shortened: vec![false; lanes.frames.len()],
            labels,
            out: String::new(),
        }
    }

    fn header(&mut self) {
        let mut line = " ".repeat(self.gutter);
        for (i, label) in self.labels.iter().enumerate() {
            let label = cut(label, self.lane_width);
            line.push_str(&paint(self.lanes.palette.strong, &label));
            if i + 1 < self.labels.len() {
                line.push_str(&filler(&label, self.lane_width + GAP));
            }
        }
        self.push_line(&line);
    }

    fn frame(&mut self, index: usize, frame: &'a Frame) {
        match full_width(frame) {
            Some(text) => self.full_width_line(index, frame, &text),
            None => self.lane_rows(index, frame),
        }
        self.follow(frame);
    }

    /// Crashes, clock moves and the like concern more than one session: a line across all lanes.
    fn full_width_line(&mut self, index: usize, frame: &Frame, text: &str) {
        let total = self.lane_width * self.labels.len() + GAP * self.labels.len().saturating_sub(1);
        let head = format!("──── {text} ");
        let fill = "─".repeat(total.saturating_sub(width(&head)).max(4));
        let number = self.number(index);
        let line = paint(self.lanes.palette.warn, &format!("{head}{fill}"));
        self.push_line(&format!("{number}{line}"));
        if let Some(statement) = &frame.statement {
            let text = cut(&one_line(&statement.sql), total.max(LANE_MIN));
            self.shortened[index] = text != one_line(&statement.sql);
            self.push_line(&format!("{:gutter$}{text}", "", gutter = self.gutter));
        }
        self.note(index, 0);
    }

    fn lane_rows(&mut self, index: usize, frame: &Frame) {
        let lane = self
            .labels
            .iter()
            .position(|l| *l == &*frame.actor)
            .unwrap_or(0);
        let (cells, shortened) = cells(frame, self.lane_width, self.lanes.palette);
        self.shortened[index] = shortened;
        for (row, cell) in cells.iter().enumerate() {
            let mut line = if row == 0 {
                self.number(index)
            } else {
                " ".repeat(self.gutter)
            };
            line.push_str(&self.row(lane, cell));
            self.push_line(&line);
        }
        self.note(index, lane);
    }

    /// All lanes at one line: the cell in its own, bars where a session is blocked.
    fn row(&self, lane: usize, cell: &Cell) -> String {
        let mut line = String::new();
        for i in 0..self.labels.len() {
            let (text, style) = if i == lane {
                (cell.text.as_str(), cell.style)
            } else if self.blocked[i] {
                ("│", self.lanes.palette.warn)
            } else {
                ("", Style::new())
            };
            line.push_str(&paint(style, text));
            if i + 1 < self.labels.len() {
                line.push_str(&filler(text, self.lane_width + GAP));
            }
        }
        line
    }

    fn note(&mut self, index: usize, lane: usize) {
        let Some(note) = self.lanes.notes.get(&index) else {
            return;
        };
        for text in note.lines() {
            let cell = Cell {
                text: text.to_owned(),
                style: self.lanes.palette.bad,
            };
            let row = self.row(lane, &cell);
            let indent = " ".repeat(self.gutter);
            self.push_line(&format!("{indent}{row}"));
        }
    }

    fn number(&self, index: usize) -> String {
        let digits = self.gutter - 4;
        let number = paint(self.lanes.palette.dim, &format!("{:>digits$}", index + 1));
        let mark = if self.lanes.matters.contains(&index) {
            paint(self.lanes.palette.bad, "●")
        } else {
            " ".to_owned()
        };
        format!("{mark} {number}  ")
    }

    /// Keeps track of who is blocked after this event.
    fn follow(&mut self, frame: &Frame) {
        let ended = matches!(frame.kind, Kind::Notice | Kind::Kill);
        for (label, blocked) in self.labels.iter().zip(&mut self.blocked) {
            if *label != &*frame.actor {
                continue;
            }
            match frame.outcome.as_ref().map(|said| said.tone) {
                Some(Tone::Waits) => *blocked = true,
                Some(Tone::Done | Tone::Refused) => *blocked = false,
                None if ended => *blocked = false,
                None => {}
            }
        }
    }

    fn push_line(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }
}

/// The sessions in the order in which they first act, those of one process side by side.
fn labels(frames: &[Frame]) -> Vec<&str> {
    let process = |label: &str| label.split('/').next().unwrap_or_default().to_owned();
    let mut labels: Vec<&str> = Vec::new();
    for frame in frames {
        let label = &*frame.actor;
        if label.is_empty() || labels.contains(&label) {
            continue;
        }
        // A crash names the process, which is no lane of its own if its sessions are.
        if frame.kind == Kind::Crash {
            continue;
        }
        let after_sibling = labels
            .iter()
            .rposition(|l| process(l) == process(label))
            .map_or(labels.len(), |i| i + 1);
        labels.insert(after_sibling, label);
    }
    labels
}

/// How much of what an observer sees is drawn.
const OBSERVED_WIDTH: usize = 60;

/// The text of an event that is drawn across all lanes.
fn full_width(frame: &Frame) -> Option<String> {
    let actor = &frame.actor;
    let text = match frame.kind {
        Kind::Crash => format!("{actor} crashes"),
        Kind::Notice => format!("the server notices that {actor} is gone"),
        Kind::Kill => format!("the server ends the session of {actor}"),
        Kind::Advance(micros) => format!("the clock moves by {}", duration(micros)),
        Kind::Observe => {
            let outcome = frame.outcome.as_ref().map_or("", |said| &said.text);
            let step = frame.step.as_deref().unwrap_or_default();
            format!("{step} → {}", cut(outcome, OBSERVED_WIDTH))
        }
        Kind::Lose(loss) => {
            let how = match loss {
                Loss::NotArrived => "before its statement arrives",
                Loss::ReplyLost => "after its statement took effect",
                Loss::StillRunning => "while its statement is still to run",
            };
            match &frame.step {
                Some(step) => format!("{actor} loses its connection {how}: {step}"),
                None => format!("{actor} loses its connection {how}"),
            }
        }
        Kind::Step
        | Kind::Resume
        | Kind::Continue
        | Kind::Route(_)
        | Kind::Deadlock
        | Kind::Expire
        | Kind::Late
        | Kind::Cancel => {
            return None;
        }
    };
    Some(text)
}

/// The lines of an event in its lane, and whether its statement was shortened.
fn cells(frame: &Frame, limit: usize, palette: Palette) -> (Vec<Cell>, bool) {
    let what = what(frame);
    let (outcome, style) = match &frame.outcome {
        None => ("", Style::new()),
        Some(said) => (said.text.as_str(), style_of(said.tone, palette)),
    };
    let statement = match frame.kind {
        Kind::Step | Kind::Late => frame.statement.as_ref(),
        _ => None,
    };
    let sql = statement.map(|s| one_line(&s.sql)).unwrap_or_default();
    let head = match (what.is_empty(), sql.is_empty()) {
        (false, false) => format!("{what}: "),
        _ => what,
    };
    let whole = format!("{head}{sql}");
    let both = if outcome.is_empty() {
        whole.clone()
    } else {
        format!("{whole} → {outcome}")
    };
    if width(&both) <= limit {
        return (
            vec![Cell {
                text: both,
                style: joined_style(frame, style),
            }],
            false,
        );
    }
    let room = limit.saturating_sub(width(&head));
    let first = if sql.is_empty() || room < 8 {
        cut(head.trim_end_matches([':', ' ']), limit)
    } else {
        format!("{head}{}", shorten(&sql, room))
    };
    let shortened = !sql.is_empty() && first != whole;
    let mut cells = vec![Cell {
        text: first,
        style: Style::new(),
    }];
    if !outcome.is_empty() {
        cells.push(Cell {
            text: cut(&format!("→ {outcome}"), limit),
            style,
        });
    }
    (cells, shortened)
}

/// A statement with its outcome on one line is coloured only where the outcome calls for it.
fn joined_style(frame: &Frame, outcome: Style) -> Style {
    match frame.outcome.as_ref().map(|said| said.tone) {
        Some(Tone::Done) | None => Style::new(),
        Some(_) => outcome,
    }
}

/// What happens, before the statement: the step's name or a verb.
fn what(frame: &Frame) -> String {
    let step = frame.step.as_deref().unwrap_or_default();
    let with = |verb: &str| format!("{step} {verb}").trim_start().to_owned();
    match frame.kind {
        Kind::Resume | Kind::Continue => with("goes on"),
        Kind::Route(backend) => with(&format!("on server connection {}", u16::from(backend) + 1)),
        Kind::Deadlock => with("is the deadlock victim"),
        Kind::Expire => with("runs into its timeout"),
        Kind::Late => with("runs late"),
        Kind::Cancel => with("is cancelled"),
        Kind::Step if frame.statement.is_none() && step.is_empty() => "wakes".to_owned(),
        _ => step.to_owned(),
    }
}

fn style_of(tone: Tone, palette: Palette) -> Style {
    match tone {
        Tone::Done => palette.good,
        Tone::Refused => palette.bad,
        Tone::Waits => palette.warn,
    }
}

#[cfg(test)]
mod tests;

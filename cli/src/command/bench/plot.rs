//! The measurements as bars, in SVG.

use std::fmt::Write as _;

use super::Configured;
use super::work::Way;

/// Pixels.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 220.0;
const BAR: f64 = 16.0;
const GAP: f64 = 4.0;
const HEAD: f64 = 30.0;

/// One group of bars for each configuration, each bar with its rows a second; a limit is the same
/// work without claim logic.
pub(super) fn svg(results: &[Configured]) -> String {
    let bars: usize = results.iter().map(|result| result.ways.len()).sum();
    let height = HEAD * (results.len() as f64 + 1.0) + (BAR + GAP) * bars as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut y = 0.0;
    for result in results {
        group(&mut svg, result, &mut y);
    }
    svg.push_str("</svg>\n");
    svg
}

fn group(svg: &mut String, result: &Configured, y: &mut f64) {
    let load = result.load;
    let most = result
        .ways
        .iter()
        .filter_map(|(way, _)| result.rows_per_second(*way))
        .fold(1.0, f64::max);
    let _ = writeln!(
        svg,
        "<text x=\"8\" y=\"{}\" font-weight=\"bold\">{}: workers {}, batch {}, handler {}</text>",
        *y + 20.0,
        text(&result.server),
        load.workers,
        load.batch,
        super::millis(load.handler),
    );
    *y += HEAD;
    for (way, _) in &result.ways {
        let rows = result.rows_per_second(*way).unwrap_or_default();
        let length = (WIDTH - LEFT - RIGHT) * rows / most;
        let share = result.of_limit(*way);
        let share = share.map_or(String::new(), |share| format!(" ({share:.2} of its limit)"));
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LEFT}\" y=\"{}\" width=\"{length:.1}\" height=\"{BAR}\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{}\">{rows:.0} rows/s{share}</text>",
            LEFT - 8.0,
            *y + 12.0,
            text(way.name()),
            *y,
            colour(*way),
            LEFT + length + 6.0,
            *y + 12.0,
        );
        *y += BAR + GAP;
    }
}

/// Forms in one colour, what they are compared with in another.
fn colour(way: Way) -> &'static str {
    match way.is_form() {
        true => "#7fb2e5",
        false => "#d0d0d0",
    }
}

fn text(raw: &str) -> String {
    raw.replace('&', "&amp;").replace('<', "&lt;")
}

//! The measurement as a picture: tokens that were read, step by step, summed up.

use std::fmt::Write as _;

use crate::prefix::Run;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 40.0;
const TOP: f64 = 20.0;
/// Room for the names of the lines.
const RIGHT: f64 = 220.0;
const COLOURS: [&str; 4] = ["#1b7f4b", "#b7791f", "#b83232", "#666666"];

/// An SVG.
pub(crate) fn draw(runs: &[Run]) -> String {
    let mut lines: Vec<(String, Vec<f64>)> = runs
        .iter()
        .map(|run| {
            let read = run.steps.iter().map(|it| it.prompt.saturating_sub(it.cached));
            (run.name.to_owned(), sums(read))
        })
        .collect();
    if let Some(first) = runs.first() {
        lines.push(("without a cache".to_owned(), sums(first.steps.iter().map(|it| it.prompt))));
    }
    let most = lines.iter().flat_map(|(_, sums)| sums).copied().fold(1.0, f64::max);
    let steps = runs.first().map_or(1, |run| run.steps.len().max(2));
    let x = |at: usize| LEFT + at as f64 / (steps - 1) as f64 * (WIDTH - LEFT - RIGHT);
    let y = |tokens: f64| HEIGHT - BOTTOM - tokens / most * (HEIGHT - BOTTOM - TOP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    for quarter in 0..=4 {
        let tokens = most * f64::from(quarter) / 4.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{y:.0}\" y2=\"{y:.0}\" stroke=\"#ddd\"/>\
             <text x=\"{:.0}\" y=\"{y:.0}\" text-anchor=\"end\">{tokens:.0}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y = y(tokens),
        );
    }
    for ((name, sums), colour) in lines.iter().zip(COLOURS) {
        let points: Vec<String> = sums
            .iter()
            .enumerate()
            .map(|(at, tokens)| format!("{:.1},{:.1}", x(at), y(*tokens)))
            .collect();
        let last = sums.last().copied().unwrap_or_default();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" fill=\"{colour}\">{name}</text>",
            points.join(" "),
            WIDTH - RIGHT + 8.0,
            y(last) + 4.0,
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{:.0}\">step 1</text><text x=\"{:.0}\" y=\"{:.0}\" \
         text-anchor=\"end\">step {steps}</text><text x=\"{:.0}\" y=\"14\">tokens read so \
         far</text>\n</svg>",
        HEIGHT - 16.0,
        WIDTH - RIGHT,
        HEIGHT - 16.0,
        LEFT + 6.0,
    );
    svg
}

fn sums(tokens: impl Iterator<Item = u64>) -> Vec<f64> {
    let mut sum = 0.0;
    tokens
        .map(|it| {
            sum += it as f64;
            sum
        })
        .collect()
}

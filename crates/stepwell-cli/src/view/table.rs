//! Tables with aligned columns that fit the terminal.
//!
//! Only columns that say so are shortened, and columns of less use are left out first, so an id is
//! never cut or wrapped.

use crate::out::{Paint, Tone};

/// Space between two columns.
const GAP: usize = 2;

/// What a column does when there is not enough room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Keeps its width: ids and states.
    Whole,
    /// Keeps its width, or is left out altogether; the highest number goes first.
    Drop(u8),
    /// Loses its end, down to this many columns.
    CutEnd(usize),
    /// Loses its middle, down to this many columns: the end of a command matters.
    CutMiddle(usize),
}

/// One column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    fit: Fit,
    is_right: bool,
}

impl Column {
    /// A column of text.
    pub(crate) const fn new(title: &'static str, fit: Fit) -> Self {
        Self { title, fit, is_right: false }
    }

    /// A column of numbers.
    pub(crate) const fn right(title: &'static str, fit: Fit) -> Self {
        Self { title, fit, is_right: true }
    }
}

/// One field: text on one line, and how it is meant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// Text with a tone.
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text, Tone::Plain)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// The lines of the table with a heading. `width` is `None` where nothing needs to fit.
pub(crate) fn render<const N: usize>(
    columns: &[Column; N],
    rows: &[[Cell; N]],
    width: Option<usize>,
    paint: Paint,
) -> Vec<String> {
    let mut widths = columns.map(|column| columns_of(column.title));
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(columns_of(&cell.text));
        }
    }
    let shown = width.map_or([true; N], |width| fit(columns, &mut widths, width));
    let heading = columns.map(|column| Cell::new(column.title, Tone::Faint));
    std::iter::once(&heading)
        .chain(rows)
        .map(|row| render_row(columns, row, &widths, shown, paint))
        .collect()
}

fn render_row<const N: usize>(
    columns: &[Column; N],
    row: &[Cell; N],
    widths: &[usize; N],
    shown: [bool; N],
    paint: Paint,
) -> String {
    let mut line = String::new();
    // Blanks are owed until something follows, so that no line ends with them.
    let mut owed = 0;
    let fields = columns.iter().zip(row).zip(widths).zip(shown);
    for (((column, cell), width), _) in fields.filter(|(_, is_shown)| *is_shown) {
        let text = match column.fit {
            Fit::CutMiddle(_) => cut_middle(&cell.text, *width),
            Fit::Whole | Fit::Drop(_) | Fit::CutEnd(_) => cut_end(&cell.text, *width),
        };
        let rest = width.saturating_sub(columns_of(&text));
        if column.is_right {
            owed += rest;
        }
        if !text.is_empty() {
            line.push_str(&" ".repeat(owed));
            line.push_str(&paint.tone(cell.tone, &text));
            owed = 0;
        }
        owed += GAP + if column.is_right { 0 } else { rest };
    }
    line
}

/// Makes `widths` fit into `width` as far as the columns allow, and says which columns stay.
fn fit<const N: usize>(columns: &[Column; N], widths: &mut [usize; N], width: usize) -> [bool; N] {
    let mut shown = [true; N];
    loop {
        let least = columns.iter().zip(&*widths).map(|(column, width)| match column.fit {
            Fit::CutEnd(least) | Fit::CutMiddle(least) => least.min(*width),
            Fit::Whole | Fit::Drop(_) => *width,
        });
        let least: usize =
            least.zip(shown).filter(|(_, is_shown)| *is_shown).map(|(it, _)| it + GAP).sum();
        let droppable = columns.iter().zip(&mut shown).filter(|(_, is_shown)| **is_shown);
        let next = droppable
            .filter_map(|(column, is_shown)| match column.fit {
                Fit::Drop(order) => Some((order, is_shown)),
                Fit::Whole | Fit::CutEnd(_) | Fit::CutMiddle(_) => None,
            })
            .max_by_key(|(order, _)| *order);
        match next {
            Some((_, is_shown)) if least > width + GAP => *is_shown = false,
            Some(_) | None => break,
        }
    }
    shrink(columns, widths, shown, width);
    shown
}

/// Takes the missing room from the columns that may be cut, widest first.
fn shrink<const N: usize>(
    columns: &[Column; N],
    widths: &mut [usize; N],
    shown: [bool; N],
    width: usize,
) {
    loop {
        let total: usize = widths
            .iter()
            .zip(shown)
            .filter(|(_, is_shown)| *is_shown)
            .map(|(it, _)| it + GAP)
            .sum();
        let Some(missing) = total.checked_sub(width + GAP).filter(|missing| *missing > 0) else {
            return;
        };
        let cuttable = columns.iter().zip(widths.iter_mut()).zip(shown);
        let widest = cuttable
            .filter_map(|((column, width), is_shown)| match column.fit {
                Fit::CutEnd(least) | Fit::CutMiddle(least) if is_shown && *width > least => {
                    Some((least, width))
                }
                _ => None,
            })
            .max_by_key(|(_, width)| **width);
        let Some((least, widest)) = widest else { return };
        // One column at a time is enough for tables of a few columns.
        *widest = widest.saturating_sub(missing).max(least);
    }
}

/// How many terminal columns `text` takes; it has no colours in it.
pub(crate) fn columns_of(text: &str) -> usize {
    console::measure_text_width(text)
}

/// `text` without its end when it is wider than `width`, with `…` in its place.
pub(crate) fn cut_end(text: &str, width: usize) -> String {
    if columns_of(text) <= width {
        return text.to_owned();
    }
    let mut cut = take_columns(text.chars(), width.saturating_sub(1));
    cut.push('…');
    cut
}

/// `text` without its middle when it is wider than `width`.
pub(crate) fn cut_middle(text: &str, width: usize) -> String {
    if columns_of(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let head = take_columns(text.chars(), room - room / 2);
    let tail: String = take_columns(text.chars().rev(), room / 2).chars().rev().collect();
    format!("{head}…{tail}")
}

fn take_columns(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut taken = String::new();
    let mut used = 0;
    for c in chars {
        used += columns_of(c.encode_utf8(&mut [0; 4]));
        if used > width {
            break;
        }
        taken.push(c);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::new("ID", Fit::Whole),
        Column::right("STEP", Fit::Drop(1)),
        Column::new("AGENT", Fit::Drop(2)),
        Column::new("TITLE", Fit::CutEnd(8)),
    ];

    fn rows() -> Vec<[Cell; 4]> {
        vec![
            ["0123456789".into(), "3".into(), "coder".into(), "Fix the failing test".into()],
            ["0123456780".into(), "12".into(), "x".into(), "".into()],
        ]
    }

    #[track_caller]
    fn table(width: Option<usize>, expected: &[&str]) {
        assert_eq!(render(&COLUMNS, &rows(), width, Paint::NONE), expected);
    }

    #[test]
    fn without_a_width_nothing_is_cut_and_no_line_ends_with_blanks() {
        table(
            None,
            &[
                "ID          STEP  AGENT  TITLE",
                "0123456789     3  coder  Fix the failing test",
                "0123456780    12  x",
            ],
        );
    }

    #[test]
    fn the_title_gives_way_first() {
        table(
            Some(40),
            &[
                "ID          STEP  AGENT  TITLE",
                "0123456789     3  coder  Fix the failin…",
                "0123456780    12  x",
            ],
        );
    }

    #[test]
    fn then_columns_of_less_use_are_left_out_and_ids_stay_whole() {
        table(
            Some(28),
            &["ID          STEP  TITLE", "0123456789     3  Fix the f…", "0123456780    12"],
        );
        table(Some(5), &["ID          TITLE", "0123456789  Fix the…", "0123456780"]);
    }

    #[test]
    fn the_end_of_a_command_survives() {
        assert_eq!(cut_middle("echo ok and then rm -rf data", 17), "echo ok …-rf data");
        assert_eq!(cut_middle("short", 17), "short");
        assert_eq!(cut_end("世界世界", 5), "世界…");
    }
}

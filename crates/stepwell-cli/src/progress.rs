//! Signs of life on stderr while something takes long; nothing when nobody watches.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::out::Out;

/// How often the sign moves.
const TICK: Duration = Duration::from_millis(120);

/// A spinner with words. Gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Spinner {
    bar: Option<ProgressBar>,
    is_watched: bool,
}

impl Spinner {
    /// Nothing is shown until [`Spinner::say`].
    pub(crate) fn new(out: Out) -> Self {
        Self { bar: None, is_watched: out.is_watched }
    }

    /// The same, for whoever does not know whether somebody watches.
    pub(crate) fn for_stderr() -> Self {
        Self { bar: None, is_watched: io::stderr().is_terminal() }
    }

    /// Shows `words` until something else is written.
    pub(crate) fn say(&mut self, words: &str) {
        if !self.is_watched {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new_spinner();
            // The default style is used when ours has a mistake.
            if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {wide_msg:.dim}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(TICK);
            bar
        });
        bar.set_message(words.to_owned());
    }

    /// Clears the line, so that something else can be written.
    pub(crate) fn hide(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.hide();
    }
}

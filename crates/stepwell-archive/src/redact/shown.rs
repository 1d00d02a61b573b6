//! Texts of an event that show a part of another text of it.

use stepwell_core::EventBody;
use stepwell_core::text::title_of;

use super::fields::TITLE;

const OUTPUT: &str = "/output";

/// What an event shows parts of, before anything was removed.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// The task, of which the title may be a part.
    task: Option<String>,
    /// The whole output, of which the model saw a part.
    output: Option<String>,
    /// Nobody gave the session another title.
    pub(super) is_title_of_task: bool,
}

impl Shown {
    pub(super) fn of(body: &EventBody, blobs: &[(String, Vec<u8>)]) -> Self {
        if let EventBody::SessionCreated(it) = body {
            let task = it.task.whole().map(str::to_owned);
            let is_title_of_task = it.title == title_of(it.task.preview());
            return Self { task, is_title_of_task, ..Self::default() };
        }
        let EventBody::ToolFinished(it) = body else { return Self::default() };
        let full = it.full_output.as_ref();
        let found = full.and_then(|full| blobs.iter().find(|(address, _)| *address == full.blob));
        // Bytes that are no text were shown as U+FFFD.
        let output = found.map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned());
        Self { output, ..Self::default() }
    }

    /// The whole text of which the one at `pointer` shows a part.
    pub(super) fn whole_of(&self, pointer: &str) -> Option<&str> {
        match pointer {
            TITLE => self.task.as_deref(),
            OUTPUT => self.output.as_deref(),
            _ => None,
        }
    }
}

//! Here-documents: `<<` and the lines that follow.

use alloc::string::String;
use alloc::vec::Vec;

use super::expansion::Apart;
use super::{Reader, is_word_end};

/// A here-document whose body comes after the end of the line.
pub(super) struct HereDocument {
    delimiter: String,
    is_quoted: bool,
    strips_tabs: bool,
}

impl Reader<'_> {
    /// `<<` or `<<-` and the delimiter. Only plain delimiters are known for sure.
    pub(super) fn here_document(&mut self) -> Option<()> {
        let strips_tabs = self.take_if('-');
        self.skip_blanks();
        let quote = match self.raw()? {
            it @ ('\'' | '"') => Some(it),
            _ => None,
        };
        self.at += usize::from(quote.is_some());
        let mut delimiter = String::new();
        while let Some(next) = self.raw() {
            if !(next.is_ascii_alphanumeric() || matches!(next, '_' | '-' | '.' | '!')) {
                break;
            }
            delimiter.push(next);
            self.at += 1;
        }
        if quote.is_some() && self.take_raw() != quote {
            return None;
        }
        if delimiter.is_empty() || self.raw().is_some_and(|it| !is_word_end(it)) {
            return None;
        }
        let is_quoted = quote.is_some();
        self.here_documents.push(HereDocument { delimiter, is_quoted, strips_tabs });
        Some(())
    }

    /// The bodies of the line's here-documents, at the beginning of the next line.
    pub(super) fn here_document_bodies(&mut self) -> Option<()> {
        for document in core::mem::take(&mut self.here_documents) {
            let mut body = Vec::new();
            loop {
                // Without its delimiter a body goes on to the end of the text in some shells only.
                let rest = self.text.get(self.at..).filter(|it| !it.is_empty())?;
                let line_end = rest.iter().position(|it| *it == '\n').unwrap_or(rest.len());
                let line = rest.get(..line_end)?;
                self.at = (self.at + line_end + 1).min(self.text.len());
                let tabs =
                    line.iter().take_while(|it| document.strips_tabs && **it == '\t').count();
                if line.iter().skip(tabs).copied().eq(document.delimiter.chars()) {
                    break;
                }
                // A continued line is compared with the delimiter as a whole.
                if !document.is_quoted && line.ends_with(&['\\']) {
                    return None;
                }
                body.extend_from_slice(line);
                body.push('\n');
            }
            if !document.is_quoted {
                self.read_apart(&body, Apart::Data)?;
            }
        }
        Some(())
    }
}

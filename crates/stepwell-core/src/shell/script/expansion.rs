//! `$`, backquotes and what stands in them.

use alloc::vec::Vec;

use super::{DEPTH_MAX, End, Reader, Word};

/// What a text that is read apart is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Apart {
    /// Commands.
    Commands,
    /// Data in which only expansions count.
    Data,
}

impl Reader<'_> {
    /// `$` and what it expands.
    pub(super) fn dollar(&mut self, word: &mut Word, in_quotes: bool) -> Option<()> {
        self.at += 1;
        let next = self.peek();
        let is_parameter = next.is_some_and(|it| {
            it == '_'
                || it.is_alphanumeric()
                || matches!(it, '@' | '*' | '#' | '?' | '-' | '$' | '!')
        });
        match next {
            Some('(') => {
                self.at += 1;
                if self.take_if('(') { self.arithmetic(word)? } else { self.nested_list()? }
            }
            Some('{') => {
                self.at += 1;
                self.braced(word)?;
            }
            Some('\'') if !in_quotes => {
                self.at += 1;
                word.is_quoted = true;
                self.ansi_quoted()?;
            }
            // `$".."` is translated, then read like any quoted text.
            Some('"') if !in_quotes => {}
            Some('[') => {}
            Some(first) if is_parameter => {
                self.at += 1;
                if first == '_' || first.is_alphanumeric() {
                    while self.peek().is_some_and(|it| it == '_' || it.is_alphanumeric()) {
                        self.at += 1;
                    }
                }
            }
            Some(_) | None => {
                word.text.push('$');
                return Some(());
            }
        }
        word.is_expanded = true;
        self.is_beyond_plain();
        Some(())
    }

    /// `$((..))`. When it does not end in two parentheses it was a subshell in a substitution.
    fn arithmetic(&mut self, word: &mut Word) -> Option<()> {
        let mut open = 0_usize;
        loop {
            match self.peek()? {
                '(' => open += 1,
                ')' if open > 0 => open -= 1,
                ')' => {
                    self.at += 1;
                    return self.take_if(')').then_some(());
                }
                '\'' | '"' | '\\' => return None,
                '`' => {
                    self.backquoted(word, false)?;
                    continue;
                }
                '$' => {
                    self.deeper(|reader| reader.dollar(word, false))?;
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// `${..}` after its opening brace.
    fn braced(&mut self, word: &mut Word) -> Option<()> {
        loop {
            match self.peek()? {
                '}' => {
                    self.at += 1;
                    return Some(());
                }
                // What single quotes mean here depends on the quotes around.
                '\'' => return None,
                '\\' => self.at += 2,
                '"' => {
                    self.at += 1;
                    self.deeper(|reader| reader.double_quoted(word))?;
                }
                '`' => self.backquoted(word, false)?,
                '$' => self.deeper(|reader| reader.dollar(word, false))?,
                _ => self.at += 1,
            }
        }
    }

    /// `$'..'` after its opening quote. What its escapes mean is not worked out.
    fn ansi_quoted(&mut self) -> Option<()> {
        loop {
            match self.take_raw()? {
                '\'' => return Some(()),
                '\\' => {
                    self.take_raw()?;
                }
                _ => {}
            }
        }
    }

    /// A substitution in backquotes: its escapes are removed, then it is read by itself.
    pub(super) fn backquoted(&mut self, word: &mut Word, in_quotes: bool) -> Option<()> {
        self.at += 1;
        let mut inner = Vec::new();
        loop {
            match self.take_raw()? {
                '`' => break,
                '\\' => {
                    let escaped = self.take_raw()?;
                    let is_removed = matches!(escaped, '`' | '\\' | '$');
                    if !(is_removed || in_quotes && escaped == '"') {
                        inner.push('\\');
                    }
                    inner.push(escaped);
                }
                other => inner.push(other),
            }
        }
        word.is_expanded = true;
        self.is_beyond_plain();
        self.read_apart(&inner, Apart::Commands)
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        if self.depth >= DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        read(self)?;
        self.depth -= 1;
        Some(())
    }

    /// Reads a text of its own, whose commands count as this script's.
    pub(super) fn read_apart(&mut self, text: &[char], kind: Apart) -> Option<()> {
        if self.depth >= DEPTH_MAX {
            return None;
        }
        let mut inner = Reader::new(text, self.depth + 1);
        match kind {
            Apart::Commands => inner.list(End::Text)?,
            Apart::Data => inner.expansions()?,
        }
        self.script.is_plain &= inner.script.is_plain;
        self.script.commands.append(&mut inner.script.commands);
        Some(())
    }

    /// The expansions in a text that is otherwise data.
    fn expansions(&mut self) -> Option<()> {
        let mut word = Word::default();
        while let Some(next) = self.raw() {
            match next {
                '\\' => self.at += 2,
                '`' => self.backquoted(&mut word, false)?,
                '$' => self.dollar(&mut word, true)?,
                _ => self.at += 1,
            }
        }
        Some(())
    }
}

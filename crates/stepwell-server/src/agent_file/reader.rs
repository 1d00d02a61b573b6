//! Reading TOML tables key by key, with the place of everything that is wrong.
//!
//! All problems are collected, so that a person mends them in one go. Every key that is asked for
//! becomes known; [`Section::finish`] refuses the others.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use stepwell_core::JsonText;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::place::{AgentFileError, Problem, line_and_column, meant};
use super::{duration, json};

/// The text and what was found wrong with it.
pub(super) struct Reader<'t> {
    text: &'t str,
    problems: RefCell<Vec<(usize, String)>>,
}

impl<'t> Reader<'t> {
    /// Nothing is wrong yet.
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, problems: RefCell::default() }
    }

    /// Notes what is wrong at the byte `at`.
    pub(super) fn problem(&self, at: usize, message: impl Into<String>) {
        self.problems.borrow_mut().push((at, message.into()));
    }

    /// Gives `value` when nothing was wrong.
    ///
    /// # Errors
    /// Every problem, in the order of the text.
    pub(super) fn finish<T>(self, value: Option<T>) -> Result<T, AgentFileError> {
        let mut found = self.problems.into_inner();
        match value {
            Some(value) if found.is_empty() => Ok(value),
            Some(_) | None => {
                if found.is_empty() {
                    // Not reachable: whoever gives no value has said why.
                    found.push((0, "it cannot be read".into()));
                }
                found.sort_by_key(|(at, _)| *at);
                let problem = |(at, message)| {
                    let (line, column) = line_and_column(self.text, at);
                    Problem { line, column, message }
                };
                Err(AgentFileError { problems: found.into_iter().map(problem).collect() })
            }
        }
    }
}

/// A value and the byte where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed<T> {
    /// The value.
    pub(super) value: T,
    /// Byte of its first character.
    pub(super) at: usize,
}

/// A TOML table whose keys are read one by one. A table that is not there has no keys.
pub(super) struct Section<'a> {
    reader: &'a Reader<'a>,
    /// For messages: `[limits]`.
    title: String,
    table: Option<&'a DeTable<'a>>,
    known: Vec<&'static str>,
    /// Byte where the table begins.
    pub(super) at: usize,
}

impl<'a> Section<'a> {
    /// The whole document.
    pub(super) fn document(reader: &'a Reader<'a>, table: &'a DeTable<'a>) -> Self {
        let title = "an agent".into();
        Self { reader, title, table: Some(table), known: Vec::new(), at: 0 }
    }

    /// Where problems go.
    pub(super) fn reader(&self) -> &'a Reader<'a> {
        self.reader
    }

    /// Whether `key` is there, well or not.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// Where `key` stands, for problems that are found later; the table's place when it is missing.
    pub(super) fn place_of(&self, key: &str) -> usize {
        let entry = self.table.and_then(|table| table.get_key_value(key));
        entry.map_or(self.at, |(key, _)| key.span().start)
    }

    /// Notes that `key` must be there.
    pub(super) fn missing(&self, key: &str, advice: &str) {
        let title = &self.title;
        self.reader.problem(self.at, format!("{title} needs `{key}`: {advice}"));
    }

    fn get(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.table.and_then(|table| table.get(key))
    }

    fn wrong(&self, key: &str, value: &Spanned<DeValue<'_>>, wanted: &str) {
        let found = value.get_ref().type_str();
        let at = value.span().start;
        self.reader.problem(at, format!("`{key}` must be {wanted}, not a TOML {found}"));
    }

    /// The table under `key`, which may be missing.
    pub(super) fn section(&mut self, key: &'static str) -> Section<'a> {
        let (at, title) = (self.place_of(key), self.title_of(key));
        let table = self.get(key).and_then(|value| match value.get_ref() {
            DeValue::Table(table) => Some(table),
            other => {
                let found = other.type_str();
                let problem = format!("`{key}` must be a table {title}, not a TOML {found}");
                self.reader.problem(value.span().start, problem);
                None
            }
        });
        Section { reader: self.reader, title, table, known: Vec::new(), at }
    }

    /// The tables under `key`, written `[[key]]`.
    pub(super) fn sections(&mut self, key: &'static str) -> Vec<Section<'a>> {
        let title = format!("[{}]", self.title_of(key));
        let Some(value) = self.get(key) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(key, value, &format!("tables that begin with {title}"));
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::Table(table) => sections.push(Section {
                    reader: self.reader,
                    title: title.clone(),
                    table: Some(table),
                    known: Vec::new(),
                    at: item.span().start,
                }),
                _ => self.wrong(key, item, &format!("tables that begin with {title}")),
            }
        }
        sections
    }

    fn title_of(&self, key: &str) -> String {
        match self.title.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            Some(parent) => format!("[{parent}.{key}]"),
            None => format!("[{key}]"),
        }
    }

    /// A string.
    pub(super) fn string(&mut self, key: &'static str) -> Option<Placed<String>> {
        let value = self.get(key)?;
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.wrong(key, value, "a string");
        }
        Some(Placed { value: text?.to_owned(), at: value.span().start })
    }

    /// A string with something in it but white space.
    pub(super) fn text(&mut self, key: &'static str) -> Option<Placed<String>> {
        let text = self.string(key)?;
        if text.value.trim().is_empty() {
            self.reader.problem(text.at, format!("`{key}` is empty"));
            return None;
        }
        Some(text)
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        let value = self.get(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong(key, value, "true or false");
        }
        flag
    }

    /// A duration, in milliseconds.
    pub(super) fn duration_ms(&mut self, key: &'static str) -> Option<u64> {
        let value = self.get(key)?;
        let Some(text) = value.get_ref().as_str() else {
            let wanted = format!("a duration, for example {}", duration::examples());
            self.wrong(key, value, &wanted);
            return None;
        };
        match duration::read(text) {
            Ok(ms) => Some(ms),
            Err(problem) => {
                self.reader.problem(value.span().start, format!("`{key}`: {problem}"));
                None
            }
        }
    }

    /// A whole number within `range`.
    pub(super) fn number(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.get(key)?;
        let DeValue::Integer(digits) = value.get_ref() else {
            self.wrong(key, value, "a whole number");
            return None;
        };
        let number = u64::from_str_radix(digits.as_str(), digits.radix()).ok();
        let fitting = number.filter(|number| range.contains(number));
        if fitting.is_none() {
            let (min, max) = range.into_inner();
            let problem = match max {
                u64::MAX => format!("`{key}` must be at least {min}, not {digits}"),
                max => format!("`{key}` must be {min} to {max}, not {digits}"),
            };
            self.reader.problem(value.span().start, problem);
        }
        fitting
    }

    /// A whole number of 32 bits, at least `min`.
    pub(super) fn small_number(&mut self, key: &'static str, min: u32) -> Option<u32> {
        let number = self.number(key, u64::from(min)..=u64::from(u32::MAX))?;
        u32::try_from(number).ok()
    }

    /// Strings in brackets, each with its place.
    pub(super) fn strings(&mut self, key: &'static str) -> Option<Vec<Placed<String>>> {
        let value = self.get(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(key, value, "strings in brackets");
            return None;
        };
        let mut strings = Vec::new();
        for item in items {
            match item.get_ref().as_str() {
                Some(text) => {
                    strings.push(Placed { value: text.to_owned(), at: item.span().start });
                }
                None => self.wrong(key, item, "strings in brackets"),
            }
        }
        Some(strings)
    }

    /// A table as it was written: keys with their places, in the order of the text.
    pub(super) fn entries(&mut self, key: &'static str) -> Option<Entries<'a>> {
        let value = self.get(key)?;
        if let DeValue::Table(table) = value.get_ref() {
            return Some(in_order(table));
        }
        self.wrong(key, value, "a table");
        None
    }

    /// A JSON object, written as a TOML table.
    pub(super) fn json_object(&mut self, key: &'static str) -> Option<Placed<JsonText>> {
        let value = self.get(key)?;
        if !value.get_ref().is_table() {
            self.wrong(key, value, "a table");
            return None;
        }
        let text = json::from_toml(self.reader, key, value)?;
        self.checked_json(key, value.span().start, &text)
    }

    /// A JSON text: a string that holds JSON, or a TOML table.
    pub(super) fn json(&mut self, key: &'static str) -> Option<Placed<JsonText>> {
        let value = self.get(key)?;
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Table(_) => json::from_toml(self.reader, key, value)?,
            _ => {
                self.wrong(key, value, "a table, or a string that holds JSON");
                return None;
            }
        };
        self.checked_json(key, value.span().start, &text)
    }

    fn checked_json(&self, key: &str, at: usize, text: &str) -> Option<Placed<JsonText>> {
        match JsonText::parse(text) {
            Ok(value) => Some(Placed { value, at }),
            Err(problem) => {
                self.reader.problem(at, format!("`{key}`: {problem}"));
                None
            }
        }
    }

    /// Refuses every key that nobody asked for. `hint` may know where such a key belongs.
    pub(super) fn finish(self, hint: impl Fn(&str) -> Option<&'static str>) {
        for (key, _) in self.table.map(in_order).unwrap_or_default() {
            if self.known.contains(&key.value) {
                continue;
            }
            let advice = match hint(key.value) {
                Some(hint) => hint.to_owned(),
                None => meant(key.value, &self.known),
            };
            let problem = format!("{} has no key `{}`: {advice}", self.title, key.value);
            self.reader.problem(key.at, problem);
        }
    }
}

/// The entries of a table, in the order of the text.
pub(super) type Entries<'a> = Vec<(Placed<&'a str>, &'a Spanned<DeValue<'a>>)>;

/// The parser keeps tables sorted by key; people think in the order in which they wrote.
pub(super) fn in_order<'a>(table: &'a DeTable<'a>) -> Entries<'a> {
    let mut entries: Entries<'a> = table
        .iter()
        .map(|(key, value)| (Placed { value: key.get_ref().as_ref(), at: key.span().start }, value))
        .collect();
    entries.sort_by_key(|(key, _)| key.at);
    entries
}

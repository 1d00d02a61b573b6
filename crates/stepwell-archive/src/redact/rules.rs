//! What has to go: rules from a TOML file.

use regex::Regex;
use serde::Deserialize;
use stepwell_core::EventKind;

use super::fields::{FIELDS, fits};
use super::marker;

/// Rules for secrets that need no pattern: name, patterns, whether they apply when the file does not
/// choose. Of a pattern with a group only the group is removed.
pub const BUILT_IN: &[(&str, &[&str], bool)] = &[
    (
        "private_key",
        &[
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
        ],
        true,
    ),
    (
        "bearer_token",
        &[
            r"(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{16,})",
            r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        ],
        true,
    ),
    (
        "api_key",
        &[
            r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}",
            r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
            r"\bgh[pousr]_[A-Za-z0-9]{30,}",
            r"\bgithub_pat_[A-Za-z0-9_]{30,}",
            r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
            r"\bAIza[0-9A-Za-z_-]{35}",
            r#"(?i)\b[a-z0-9_]*(?:api[_-]?key|secret|token|passwo?r?d)["']?\s*[:=]\s*["']?([^\s"',;\[\]{}]{8,})"#,
        ],
        true,
    ),
    ("email", &[r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b"], false),
];

/// Bytes that a compiled pattern may take.
const PATTERN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Rules that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// Not TOML of this form.
    #[error("the rules cannot be read: {0}")]
    Toml(String),
    /// No built-in rule of that name.
    #[error("secrets: there is no built-in rule {name:?}: choose from {known}")]
    UnknownBuiltIn {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// A pattern that is none.
    #[error("secret {name:?}: the pattern is no regular expression: {reason}")]
    BadPattern {
        /// Name of the rule.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A name that would make a marker unreadable.
    #[error("secret {name:?}: a name has 1 to 40 letters, digits, `_` and `-`")]
    BadName {
        /// The name.
        name: String,
    },
    /// No event of that type.
    #[error("field: there is no event {kind:?}: docs/events.md lists them, `*` means all")]
    UnknownKind {
        /// The type.
        kind: String,
    },
    /// The event has no text there.
    #[error("field: {kind} has no text {pointer:?} that can be removed: {known}")]
    UnknownField {
        /// The type.
        kind: String,
        /// The pointer.
        pointer: String,
        /// Those that it has.
        known: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Built-in rules; those that are on by default when not given.
    secrets: Option<Vec<String>>,
    #[serde(default)]
    secret: Vec<SecretEntry>,
    #[serde(default)]
    field: Vec<FieldEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretEntry {
    name: String,
    pattern: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldEntry {
    event: String,
    pointer: String,
}

#[derive(Debug, Clone)]
struct Secret {
    name: String,
    pattern: Regex,
}

#[derive(Debug, Clone)]
struct WholeField {
    /// `None` for every event.
    kind: Option<EventKind>,
    pointer: String,
}

/// What has to go.
#[derive(Debug, Clone)]
pub struct Rules {
    secrets: Vec<Secret>,
    fields: Vec<WholeField>,
}

impl Rules {
    /// Reads rules.
    ///
    /// # Errors
    /// [`RulesError`].
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        let file: File =
            toml::from_str(text).map_err(|error| RulesError::Toml(error.to_string()))?;
        let mut secrets = Vec::new();
        for (name, patterns) in built_in(file.secrets.as_deref())? {
            for pattern in patterns {
                secrets.push(secret(name, pattern)?);
            }
        }
        for entry in &file.secret {
            check_name(&entry.name)?;
            secrets.push(secret(&entry.name, &entry.pattern)?);
        }
        let fields: Result<Vec<_>, _> = file.field.into_iter().map(whole_field).collect();
        Ok(Self { secrets, fields: fields? })
    }

    /// The rule that removes this text whole.
    pub(super) fn whole(&self, kind: EventKind, pointer: &str) -> Option<&str> {
        let is_meant = |it: &&WholeField| {
            it.kind.is_none_or(|wanted| wanted == kind) && fits(&it.pointer, pointer)
        };
        self.fields.iter().find(is_meant).map(|_| "field")
    }

    /// The text without secrets, when it has some. A marker that a rule left is not searched by the
    /// next one; a text that only looks like a marker is.
    pub(super) fn without_secrets(&self, text: &str) -> Option<String> {
        let mut pieces = vec![Piece::Text(text.to_owned())];
        for Secret { name, pattern } in &self.secrets {
            pieces = pieces.into_iter().flat_map(|it| it.split(name, pattern)).collect();
        }
        let is_changed = pieces.iter().any(|it| matches!(it, Piece::Marker(_)));
        is_changed.then(|| pieces.iter().map(Piece::as_str).collect())
    }

    /// As for a text that is known in part only.
    pub(super) fn whole_or_secrets(&self, rule: Option<&str>, text: &str) -> Option<String> {
        match rule {
            Some(rule) => Some(marker(rule, text.as_bytes())),
            None => self.without_secrets(text),
        }
    }
}

/// A part of a text that is searched.
enum Piece {
    Text(String),
    Marker(String),
}

impl Piece {
    fn as_str(&self) -> &str {
        match self {
            Self::Text(text) | Self::Marker(text) => text,
        }
    }

    /// One pass of one rule. Of a pattern with a group only the group goes; an empty match is none.
    fn split(self, name: &str, pattern: &Regex) -> Vec<Self> {
        let text = match self {
            Self::Text(text) => text,
            Self::Marker(_) => return vec![self],
        };
        let mut pieces = Vec::new();
        let mut done = 0;
        for captures in pattern.captures_iter(&text) {
            let Some(found) = captures.get(1).or_else(|| captures.get(0)) else { continue };
            if found.is_empty() || found.start() < done {
                continue;
            }
            let before = text.get(done..found.start()).unwrap_or_default();
            pieces.push(Self::Text(before.to_owned()));
            pieces.push(Self::Marker(marker(name, found.as_str().as_bytes())));
            done = found.end();
        }
        pieces.push(Self::Text(text.get(done..).unwrap_or_default().to_owned()));
        pieces
    }
}

type Named = (&'static str, &'static [&'static str]);

fn built_in(chosen: Option<&[String]>) -> Result<Vec<Named>, RulesError> {
    let Some(names) = chosen else {
        let default = BUILT_IN.iter().filter(|(_, _, is_default)| *is_default);
        return Ok(default.map(|(name, patterns, _)| (*name, *patterns)).collect());
    };
    let find = |wanted: &String| {
        let found = BUILT_IN.iter().find(|(name, _, _)| name == wanted);
        found.map(|(name, patterns, _)| (*name, *patterns)).ok_or_else(|| {
            let known: Vec<_> = BUILT_IN.iter().map(|(name, _, _)| *name).collect();
            RulesError::UnknownBuiltIn { name: wanted.clone(), known: known.join(", ") }
        })
    };
    names.iter().map(find).collect()
}

fn secret(name: &str, pattern: &str) -> Result<Secret, RulesError> {
    let built = regex::RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
    let pattern = built.map_err(|error| RulesError::BadPattern {
        name: name.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(Secret { name: name.to_owned(), pattern })
}

/// The name stands in markers, which later rules and JSON must leave whole.
fn check_name(name: &str) -> Result<(), RulesError> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    if name.is_empty() || name.len() > 40 || !name.chars().all(is_plain) {
        return Err(RulesError::BadName { name: name.to_owned() });
    }
    Ok(())
}

fn whole_field(entry: FieldEntry) -> Result<WholeField, RulesError> {
    let FieldEntry { event, pointer } = entry;
    let kind = match event.as_str() {
        "*" => None,
        name => Some(
            EventKind::from_name(name)
                .ok_or_else(|| RulesError::UnknownKind { kind: event.clone() })?,
        ),
    };
    let known: Vec<&str> = FIELDS
        .iter()
        .filter(|(it, _)| kind.is_none_or(|kind| kind == *it))
        .flat_map(|(_, fields)| fields.iter().copied())
        .collect();
    if !known.iter().any(|it| *it == pointer || fits(it, &pointer)) {
        let known = if known.is_empty() {
            "it has none".to_owned()
        } else {
            format!("it has {}", known.join(", "))
        };
        return Err(RulesError::UnknownField { kind: event, pointer, known });
    }
    Ok(WholeField { kind, pointer })
}

//! What has to go: rules from a TOML file.

use std::ops::Range;

use regex::{Regex, RegexSet, RegexSetBuilder};
use serde::Deserialize;
use stepwell_core::EventKind;
use stepwell_core::marker::{Marker, RULE_NAME_MAX, is_rule_name, marker, markers};

use super::built_in::BUILT_IN;
use super::cuts::{cuts, rests, segments, tried};
use super::fields::{FIELDS, fits, may_meet};
use super::together::{Removed, in_place_of, sources};

/// Stands in markers of whole fields in the place of a rule's name.
pub(super) const WHOLE_FIELD: &str = "field";

/// Stands in markers of bytes that are no text.
pub(super) const BINARY: &str = "binary";

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
    /// Each pattern is one, but not all of them together.
    #[error("the patterns together are too much: {reason}: use fewer or shorter ones")]
    TooMany {
        /// What is wrong.
        reason: String,
    },
    /// A pattern that finds the empty text.
    #[error(
        "secret {name:?}: the pattern finds the empty text, so it would find something everywhere: \
         write what a secret has at least"
    )]
    FindsNothing {
        /// Name of the rule.
        name: String,
    },
    /// A name that would make a marker unreadable.
    #[error("secret {name:?}: a name has 1 to {RULE_NAME_MAX} letters, digits, `_` and `-`")]
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

/// A rule for whole fields, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FieldRule(usize);

/// What has to go.
#[derive(Debug, Clone)]
pub struct Rules {
    secrets: Vec<Secret>,
    /// All their patterns: says fast that none finds anything.
    any: RegexSet,
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
        let any = RegexSetBuilder::new(secrets.iter().map(|it| it.pattern.as_str()))
            .size_limit(PATTERN_BYTES_MAX * secrets.len().max(1))
            .build()
            .map_err(|error| RulesError::TooMany { reason: error.to_string() })?;
        Ok(Self { secrets, any, fields: fields? })
    }

    /// Whether a rule removes this text whole: because it names it, or one whose place it takes or that
    /// it says again.
    pub(super) fn is_whole(&self, kind: EventKind, pointer: &str) -> bool {
        let place = in_place_of(kind, pointer);
        [(kind, pointer)].into_iter().chain(place).any(|(kind, pointer)| {
            let mut sources = sources(kind, pointer);
            let said_again = sources.any(|source| self.naming(kind, &source).next().is_some());
            said_again || self.naming(kind, pointer).next().is_some()
        })
    }

    /// The rules that name a text itself, or one whose place it takes.
    pub(super) fn naming(&self, kind: EventKind, pointer: &str) -> impl Iterator<Item = FieldRule> {
        let places = [Some((kind, pointer)), in_place_of(kind, pointer)];
        let is_meant = move |it: &WholeField| {
            places.iter().flatten().any(|(kind, pointer)| {
                it.kind.is_none_or(|wanted| wanted == *kind) && may_meet(&it.pointer, pointer)
            })
        };
        let fields = self.fields.iter().enumerate();
        fields.filter(move |(_, it)| is_meant(it)).map(|(i, _)| FieldRule(i))
    }

    /// The rules for whole fields, in words, in their order.
    pub(super) fn fields(&self) -> impl Iterator<Item = (FieldRule, String)> {
        self.fields.iter().enumerate().map(|(i, WholeField { kind, pointer })| {
            (FieldRule(i), format!("{} {pointer}", kind.map_or("*", EventKind::as_str)))
        })
    }

    /// The text without secrets, when it has some: all that any rule finds in it. What more than one
    /// rule finds goes under the name of the first of them.
    pub(super) fn without_secrets(&self, text: &str) -> Option<String> {
        clean(text, self.secrets_of(text))
    }

    /// As [`Rules::without_secrets`], for a text that shows parts of `whole`: what a rule finds there goes
    /// here, and of a secret that was cut the piece goes under the length and hash of the whole secret.
    pub(super) fn without_secrets_of(&self, shown: &str, whole: &str) -> Option<String> {
        let mut found = self.secrets_of(shown);
        let segments = segments(shown, whole);
        for Found { range, rule, name, .. } in self.secrets_of(whole) {
            let secret = whole.get(range.clone());
            let pieces = segments.iter().filter_map(|it| it.shows(&range));
            found.extend(pieces.map(|range| Found { range, rule, name, secret }));
        }
        clean(shown, merged(found))
    }

    /// As [`Rules::without_secrets`], for a text in which the engine perhaps says removed ones again.
    pub(super) fn without_repeated(&self, text: &str, removed: &Removed) -> Option<String> {
        let repeated = removed.repeated_in(text).into_iter().map(|(range, whole)| Found {
            range,
            rule: usize::MAX,
            name: WHOLE_FIELD,
            secret: Some(whole),
        });
        clean(text, merged(self.secrets_of(text).into_iter().chain(repeated).collect()))
    }

    /// The rule that still finds something in a text that was redacted. Markers of these rules are none
    /// of it, while a text that only looks like a marker is.
    pub(super) fn left_in<'r>(&'r self, text: &str) -> Option<&'r str> {
        let known = |it: &Marker<'_>| {
            let names = self.secrets.iter().map(|it| it.name.as_str());
            names.chain([WHOLE_FIELD, BINARY]).any(|name| name == it.rule)
        };
        let own: Vec<Range<usize>> = markers(text).filter(known).map(|it| it.range).collect();
        let is_beside = |it: &Found<'_>| !own.iter().any(|own| overlaps(own, &it.range));
        self.matches_of(text).chain(self.cut_off_in(text)).find(is_beside).map(|it| it.name)
    }

    /// What the rules find, without overlaps and in order.
    fn secrets_of<'r>(&'r self, text: &str) -> Vec<Found<'r>> {
        merged(self.matches_of(text).chain(self.cut_off_in(text)).collect())
    }

    /// Beginnings of secrets that a cut ends: what a rule would find had the text gone on.
    fn cut_off_in<'r>(&'r self, text: &str) -> impl Iterator<Item = Found<'r>> {
        cuts(text).flat_map(move |cut| {
            let (start, before) = tried(text, &cut);
            let rests = rests().filter(|rest| self.any.is_match(&format!("{before}{rest}")));
            let found: Vec<_> = rests.flat_map(|rest| self.reaching(&before, &rest)).collect();
            let here =
                move |it: Found<'r>| Found { range: start + it.range.start..cut.start, ..it };
            found.into_iter().map(here)
        })
    }

    /// What the rules find in a text and what may have followed it, of those finds that need both.
    fn reaching<'r>(&'r self, before: &str, rest: &str) -> Vec<Found<'r>> {
        let reaches = |it: &Found<'_>| it.range.start < before.len() && before.len() < it.range.end;
        let all = format!("{before}{rest}");
        self.matches_of(&all).map(|it| Found { secret: None, ..it }).filter(reaches).collect()
    }

    /// Of a pattern with a group only the group is found; an empty match is none.
    fn matches_of<'r>(&'r self, text: &str) -> impl Iterator<Item = Found<'r>> {
        self.secrets.iter().enumerate().flat_map(move |(rule, Secret { name, pattern })| {
            pattern.captures_iter(text).filter_map(move |captures| {
                let range = captures.get(1).or_else(|| captures.get(0))?.range();
                (!range.is_empty()).then_some(Found { range, rule, name, secret: None })
            })
        })
    }
}

/// What a rule found in a text.
struct Found<'r> {
    range: Range<usize>,
    /// Place of the rule.
    rule: usize,
    name: &'r str,
    /// The whole secret, where the range is perhaps only a piece of it.
    secret: Option<&'r str>,
}

/// Without overlaps and in order.
fn merged(mut found: Vec<Found<'_>>) -> Vec<Found<'_>> {
    found.sort_by_key(|it| (it.range.start, it.rule));
    let mut merged: Vec<Found<'_>> = Vec::with_capacity(found.len());
    for it in found {
        match merged.last_mut() {
            Some(last) if overlaps(&last.range, &it.range) => {
                last.range.end = last.range.end.max(it.range.end);
                last.secret = last.secret.or(it.secret);
                if it.rule < last.rule {
                    (last.rule, last.name) = (it.rule, it.name);
                }
            }
            Some(_) | None => merged.push(it),
        }
    }
    merged
}

/// The text with markers in the place of what was found; `None` when nothing was.
fn clean(text: &str, found: Vec<Found<'_>>) -> Option<String> {
    if found.is_empty() {
        return None;
    }
    let (mut clean, mut done) = (String::with_capacity(text.len()), 0);
    for Found { range, name, secret, .. } in found {
        clean.push_str(text.get(done..range.start).unwrap_or_default());
        let secret = secret.or_else(|| text.get(range.clone())).unwrap_or_default();
        clean.push_str(&marker(name, secret.as_bytes()));
        done = range.end;
    }
    clean.push_str(text.get(done..).unwrap_or_default());
    Some(clean)
}

fn overlaps(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
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
    if pattern.is_match("") {
        return Err(RulesError::FindsNothing { name: name.to_owned() });
    }
    Ok(Secret { name: name.to_owned(), pattern })
}

/// The name stands in markers, which later rules and JSON must leave whole.
fn check_name(name: &str) -> Result<(), RulesError> {
    if is_rule_name(name) { Ok(()) } else { Err(RulesError::BadName { name: name.to_owned() }) }
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

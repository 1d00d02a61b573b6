//! JSON Schemas as grammar engines accept them.
//!
//! A grammar says what may come next; it cannot count what came before or compare it. Engines refuse a
//! schema with such a keyword, and the request with it. So these are left out of what is sent, and the
//! true schema is checked here.
//!
//! Invariant: what fits the true schema fits the relaxed one, and the order of its properties, which is
//! the order in which the model writes them, stays.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use stepwell_core::JsonText;
use stepwell_core::json::write_string;
use stepwell_core::output::RelaxedSchema;

/// Keywords that no grammar can express, or that engines (xgrammar, llguidance, outlines) lack.
const DROPPED: &[&str] = &[
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedItems",
    "unevaluatedProperties",
    "not",
    "if",
    "then",
    "else",
];

/// Formats that engines have a grammar for.
const FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];

/// Keywords whose value is a schema, or a list of them.
const SCHEMAS: &[&str] =
    &["items", "prefixItems", "additionalItems", "additionalProperties", "anyOf", "oneOf", "allOf"];

/// Keywords whose value has names of its own, each with a schema.
const MAPS: &[&str] = &["properties", "patternProperties", "$defs", "definitions"];

/// The schema as engines accept it; `None` when they accept it as it is.
pub fn relaxed(schema: &JsonText) -> Option<RelaxedSchema> {
    let raw: &RawValue = serde_json::from_str(schema.as_str()).ok()?;
    let mut relaxer = Relaxer::default();
    let mut text = String::new();
    relaxer.schema(raw, &mut text)?;
    if relaxer.dropped.is_empty() {
        return None;
    }
    Some(RelaxedSchema { schema: JsonText::parse(&text).ok()?, dropped: relaxer.dropped })
}

#[derive(Default)]
struct Relaxer {
    /// Where it is, as a JSON pointer.
    at: String,
    dropped: Vec<String>,
}

impl Relaxer {
    /// Does `what` with the pointer one name longer.
    fn within<T>(&mut self, name: &str, what: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.at.len();
        self.at.push('/');
        self.at.push_str(&name.replace('~', "~0").replace('/', "~1"));
        let done = what(self);
        self.at.truncate(length);
        done
    }

    /// Writes the relaxed form of a schema, or of a list of schemas.
    fn schema(&mut self, raw: &RawValue, out: &mut String) -> Option<()> {
        match raw.get().bytes().next() {
            Some(b'{') => self.keywords(raw, out),
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
                out.push('[');
                for (i, item) in items.into_iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    self.within(&i.to_string(), |it| it.schema(item, out))?;
                }
                out.push(']');
                Some(())
            }
            // `true`, `false`, or something that a validator refuses.
            Some(_) | None => {
                out.push_str(raw.get());
                Some(())
            }
        }
    }

    fn keywords(&mut self, raw: &RawValue, out: &mut String) -> Option<()> {
        let Members(members) = serde_json::from_str(raw.get()).ok()?;
        let has_any_of = members.iter().any(|(name, _)| name == "anyOf");
        out.push('{');
        let mut is_first = true;
        for (name, value) in members {
            let sent = sent_as(&name, value).filter(|it| *it == name || !has_any_of);
            let Some(sent) = sent else {
                self.within(&name, |it| it.dropped.push(it.at.clone()));
                continue;
            };
            if !std::mem::take(&mut is_first) {
                out.push(',');
            }
            write_string(sent, out);
            out.push(':');
            self.within(&name, |it| {
                if sent != name {
                    it.dropped.push(it.at.clone());
                }
                if SCHEMAS.contains(&&*name) {
                    it.schema(value, out)
                } else if MAPS.contains(&&*name) {
                    it.named(value, out)
                } else {
                    out.push_str(value.get());
                    Some(())
                }
            })?;
        }
        out.push('}');
        Some(())
    }

    /// Schemas under names that their author chose.
    fn named(&mut self, raw: &RawValue, out: &mut String) -> Option<()> {
        let Members(members) = serde_json::from_str(raw.get()).ok()?;
        out.push('{');
        for (i, (name, value)) in members.into_iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            write_string(&name, out);
            out.push(':');
            self.within(&name, |it| it.schema(value, out))?;
        }
        out.push('}');
        Some(())
    }
}

/// The keyword under which a value is sent; `None` when it is left out.
fn sent_as<'a>(name: &'a str, value: &RawValue) -> Option<&'a str> {
    let text = || serde_json::from_str::<Cow<'_, str>>(value.get()).unwrap_or_default();
    match name {
        // An engine cannot see that only one fits.
        "oneOf" => Some("anyOf"),
        "format" if !FORMATS.contains(&&*text()) => None,
        "pattern" if looks_around(&text()) => None,
        _ if DROPPED.contains(&name) => None,
        _ => Some(name),
    }
}

/// Whether an expression looks ahead, behind or back, for which it takes more than an automaton.
fn looks_around(pattern: &str) -> bool {
    regex::Regex::new(pattern).is_err()
}

/// The members of an object in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &str, expected: &str, dropped: &[&str]) {
        let relaxed = relaxed(&JsonText::parse(schema).unwrap()).unwrap();
        assert_eq!(
            (relaxed.schema.as_str(), relaxed.dropped),
            (expected, dropped.iter().map(ToString::to_string).collect())
        );
    }

    #[test]
    fn what_no_grammar_can_express_is_left_out_and_named() {
        check(
            r#"{"type":"object","properties":{"z":{"type":"array","items":{"type":"integer","multipleOf":5},"uniqueItems":true,"minItems":2},"a/b":{"not":{}}},"required":["z"]}"#,
            r#"{"type":"object","properties":{"z":{"type":"array","items":{"type":"integer","multipleOf":5},"minItems":2},"a/b":{}},"required":["z"]}"#,
            &["/properties/z/uniqueItems", "/properties/a~1b/not"],
        );
        check(
            r##"{"$defs":{"n":{"oneOf":[{"format":"uuid"},{"format":"color"}]}},"items":[{"$ref":"#/$defs/n"},{"pattern":"^(?!a)"}]}"##,
            r##"{"$defs":{"n":{"anyOf":[{"format":"uuid"},{}]}},"items":[{"$ref":"#/$defs/n"},{}]}"##,
            &["/$defs/n/oneOf", "/$defs/n/oneOf/1/format", "/items/1/pattern"],
        );
    }

    #[test]
    fn names_and_values_that_look_like_keywords_stay() {
        for schema in [
            r#"{"type":"object","properties":{"not":{"type":"string"},"if":true,"format":{"const":{"not":1}}}}"#,
            r#"{"enum":[{"uniqueItems":true}],"default":{"contains":1},"required":["else"]}"#,
            "true",
        ] {
            assert_eq!(relaxed(&JsonText::parse(schema).unwrap()), None, "{schema}");
        }
    }

    #[test]
    fn numbers_keep_their_digits() {
        check(
            r#"{"maximum":2512292042121000001,"uniqueItems":false}"#,
            r#"{"maximum":2512292042121000001}"#,
            &["/uniqueItems"],
        );
    }
}

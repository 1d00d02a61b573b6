//! What rules still find in an event that was redacted, searched as it is written: a field that no list
//! of texts names is searched as well.

use serde_json::Value;
use stepwell_ports::StoredEvent;

use super::Rules;
use super::json::text_of;

/// Stands for the event's actor, which lies beside its body.
const ACTOR: &str = "actor";

/// Where a rule for secrets finds something in an event and its payloads.
pub(super) fn places(
    rules: &Rules,
    event: &StoredEvent,
    blobs: &[(String, Vec<u8>)],
) -> Vec<String> {
    let mut search = Search { rules, blobs, left: Vec::new() };
    if rules.left_in(&event.actor).is_some() {
        search.left.push(ACTOR.to_owned());
    }
    match serde_json::from_str(&event.body) {
        Ok(body) => search.value("", &body),
        Err(_) if rules.left_in(&event.body).is_some() => search.left.push(String::new()),
        Err(_) => {}
    }
    search.left
}

struct Search<'a> {
    rules: &'a Rules,
    blobs: &'a [(String, Vec<u8>)],
    left: Vec<String>,
}

impl Search<'_> {
    /// Depth is bounded by the reader of JSON.
    fn value(&mut self, at: &str, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::String(_) | Value::Number(_) => self.text(at, &text_of(value)),
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.value(&format!("{at}/{i}"), item);
                }
            }
            Value::Object(members) => {
                if let Some(Value::String(address)) = members.get("blob") {
                    self.payload(at, address);
                }
                for (name, value) in members {
                    self.member(at, name, value);
                }
            }
        }
    }

    /// A name that holds a secret does not stand in the pointer either.
    fn member(&mut self, at: &str, name: &str, value: &Value) {
        if !is_field_name(name) && self.rules.left_in(name).is_some() {
            let at = format!("{at}/*");
            self.left.push(at.clone());
            return self.value(&at, value);
        }
        let name = name.replace('~', "~0").replace('/', "~1");
        self.value(&format!("{at}/{name}"), value);
    }

    fn payload(&mut self, at: &str, address: &str) {
        let found = self.blobs.iter().find(|(it, _)| it == address);
        if let Some((_, bytes)) = found {
            self.text(at, &String::from_utf8_lossy(bytes));
        }
    }

    fn text(&mut self, at: &str, text: &str) {
        if self.rules.left_in(text).is_some() {
            self.left.push(at.to_owned());
        }
    }
}

/// Whether it looks like a name that an event gives its fields, which nobody took from a session.
fn is_field_name(name: &str) -> bool {
    name.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_')
}

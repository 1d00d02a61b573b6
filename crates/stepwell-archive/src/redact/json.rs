//! JSON stays JSON, so that what reads it still can.

use serde_json::Value;
use stepwell_core::JsonText;
use stepwell_core::marker::{ALL_REDACTED, marker};

use super::Rules;

/// Takes secrets out of each text and number inside; all of it where a rule is for the whole, or finds
/// something that goes beyond one of them.
pub(super) fn redact(rules: &Rules, whole_rule: Option<&str>, json: &mut JsonText) -> bool {
    let mut value = json.to_value();
    let whole = |rule| {
        let removed = marker(rule, json.as_str().as_bytes());
        JsonText::from_value(&serde_json::json!({ ALL_REDACTED: removed }))
    };
    let new = if let Some(rule) = whole_rule {
        Some(whole(rule))
    } else {
        let clean = redact_leaves(rules, &mut value).then(|| JsonText::from_value(&value));
        let left = rules.left_in(clean.as_ref().unwrap_or(json).as_str());
        left.map(whole).or(clean)
    };
    let changed = new.is_some();
    if let Some(new) = new {
        *json = new;
    }
    changed
}

/// Depth is bounded by the reader of JSON.
fn redact_leaves(rules: &Rules, value: &mut Value) -> bool {
    // No short cut: every item must be looked at.
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::String(_) | Value::Number(_) => redact_leaf(rules, value),
        Value::Array(items) => {
            items.iter_mut().map(|it| redact_leaves(rules, it)).filter(|it| *it).count() > 0
        }
        Value::Object(members) => {
            let redact = |(name, it): (&String, &mut Value)| {
                redact_leaves(rules, it) | redact_member(rules, name, it)
            };
            members.iter_mut().map(redact).filter(|it| *it).count() > 0
        }
    }
}

fn redact_leaf(rules: &Rules, value: &mut Value) -> bool {
    let new = rules.without_secrets(&text_of(value));
    let changed = new.is_some();
    if let Some(new) = new {
        *value = Value::String(new);
    }
    changed
}

/// What is a secret by the name of its member, as in `"token":"…"`.
fn redact_member(rules: &Rules, name: &str, value: &mut Value) -> bool {
    if !(value.is_string() || value.is_number()) {
        return false;
    }
    let member = format!("{}:{value}", Value::from(name));
    let Some(rule) = rules.left_in(&member) else { return false };
    *value = Value::String(marker(rule, text_of(value).as_bytes()));
    true
}

/// A text as it is, everything else as JSON.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

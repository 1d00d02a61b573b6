//! Where a prompt left what its server had read and written, in words.

use serde_json::Value;

use super::visible::brief;
use super::when;

/// One line of a `PrefixBreak` as it is stored.
pub(crate) fn broke(broke: &Value) -> String {
    let number = |key: &str| broke.get(key).and_then(Value::as_u64);
    let place = if broke.get("in_reply").and_then(Value::as_bool) == Some(true) {
        "in the model's last reply"
    } else {
        "in the prompt before"
    };
    // A place is counted from 0, a person counts from 1.
    let at = when::number(number("at").unwrap_or_default().saturating_add(1));
    let known = when::number(number("known").unwrap_or_default());
    let token = |id: &str, text: &str| {
        let id = number(id).map_or_else(|| "nothing".to_owned(), |id| format!("token {id}"));
        match broke.get(text).and_then(Value::as_str).filter(|it| !it.is_empty()) {
            Some(text) => format!("{id} {:?}", brief(text)),
            None => id,
        }
    };
    format!(
        "the prefix broke at token {at} of {known}, {place}: {} became {}",
        token("expected", "expected_text"),
        token("found", "found_text")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_break_names_both_tokens() {
        let mut stored = json!({
            "at": 1_299, "known": 1_320, "in_reply": true, "expected": 3252, "found": 788,
            "expected_text": "\":\"a.txt", "found_text": "\": \"a",
        });
        assert_eq!(
            broke(&stored),
            r#"the prefix broke at token 1,300 of 1,320, in the model's last reply: token 3252 "\":\"a.txt" became token 788 "\": \"a""#
        );
        stored = json!({"at": 4, "known": 9, "in_reply": false, "expected": 7});
        assert_eq!(
            broke(&stored),
            "the prefix broke at token 5 of 9, in the prompt before: token 7 became nothing"
        );
    }
}

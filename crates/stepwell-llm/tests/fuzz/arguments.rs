//! Any text as the arguments of a call: kept, repaired as far as is certain, or refused.

use rand::RngExt as _;
use rand::rngs::StdRng;
use stepwell_core::arguments::{Repair, read};
use stepwell_core::json::read_strict;

use crate::drive::drive;
use crate::mutate::{damage, pick};

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "```",
    "```json\n",
    "\n```",
    "null",
    "true",
    "tru",
    "1e999",
    "-0",
    "\\u",
    "\\ud83d",
    "{}",
    "\"a\":1,",
    "//",
    "/* */",
    "'",
    "\u{feff}",
    "NaN",
    " ",
];

/// A JSON value, sometimes written with commas that lead nowhere.
fn value(dice: &mut StdRng, depth: u32, out: &mut String) {
    let kinds = if depth == 0 { 5 } else { 8 };
    match dice.random_range(0..kinds) {
        0 => out.push_str(pick(dice, &["null", "true", "false"])),
        1 => out.push_str(&dice.random::<i64>().to_string()),
        2 => out.push_str(pick(dice, &["0", "-1.50", "2512292042121000001", "1E5", "0.1e-7"])),
        3 | 4 => text(dice, out),
        kind => {
            let is_object = kind < 7;
            out.push(if is_object { '{' } else { '[' });
            let count = dice.random_range(0..4);
            for at in 0..count {
                if is_object {
                    text(dice, out);
                    out.push_str(pick(dice, &[":", ": "]));
                }
                value(dice, depth - 1, out);
                if at + 1 < count || dice.random_ratio(1, 8) {
                    out.push_str(pick(dice, &[",", ", ", ",\n"]));
                }
            }
            out.push(if is_object { '}' } else { ']' });
        }
    }
}

fn text(dice: &mut StdRng, out: &mut String) {
    let choices = ["", "path", "a,}", "```", "{\\\"x\\\":1,}", "é🧭", "\\n\\u00e9", "],", "C:\\\\"];
    out.push('"');
    out.push_str(pick(dice, &choices));
    out.push('"');
}

fn some_text(dice: &mut StdRng) -> String {
    let mut json = String::new();
    if dice.random_ratio(7, 8) {
        json.push('{');
        text(dice, &mut json);
        json.push(':');
        value(dice, 3, &mut json);
        json.push('}');
    } else {
        value(dice, 3, &mut json);
    }
    if dice.random_ratio(1, 4) {
        json = format!("{}{json}{}", pick(dice, &["```json\n", "```", "```JSON "]), "\n```");
    }
    if dice.random_ratio(1, 4) {
        json.pop();
    }
    let mut bytes = json.into_bytes();
    if dice.random_ratio(1, 2) {
        damage(&mut bytes, WORDS, b"{\"b\":[1,],}", dice);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a repair may not touch: everything but white space, commas and the marks of a fence.
fn essence(text: &str) -> String {
    text.chars().filter(|it| !it.is_whitespace() && !matches!(it, ',' | '`')).collect()
}

/// The strings of a JSON text as they are written, quotes and all.
fn strings(json: &str) -> Vec<&str> {
    let (mut found, mut begin, mut is_escaped) = (Vec::new(), None, false);
    for (at, byte) in json.bytes().enumerate() {
        match (begin, byte) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), b'\\') => is_escaped = true,
            (Some(start), b'"') => {
                found.push(&json[start..=at]);
                begin = None;
            }
            (None, b'"') => begin = Some(at),
            (_, _) => {}
        }
    }
    found
}

fn check(raw: &str, is_cut: bool) {
    let strict = read_strict(raw.trim());
    let Ok(arguments) = read(raw, is_cut) else {
        assert!(!strict.is_ok_and(|value| value.is_object()), "a readable object was refused");
        return;
    };
    let text = arguments.text.as_str();
    assert_eq!(read_strict(text.trim()).unwrap(), arguments.value, "the text says the value");
    assert!(arguments.value.is_object());
    if arguments.repairs.is_empty() {
        assert!(text == raw || (raw.trim().is_empty() && text == "{}"), "touched: {text}");
        return;
    }
    assert!(strict.is_err(), "what can be read is not repaired");
    assert!(!raw.trim().is_empty(), "nothing is made of nothing");
    assert_eq!(read(text, is_cut).unwrap().repairs, [], "a repaired text needs no repair");
    let added = usize::from(arguments.repairs.contains(&Repair::MissingBracket));
    assert!(added == 0 || !is_cut, "something was added to what was cut");
    let own = essence(&text[..text.len() - added]);
    let written = essence(raw);
    let is_marked = written.get(..4).is_some_and(|mark| mark.eq_ignore_ascii_case("json"));
    assert!(written == own || (is_marked && written[4..] == own), "{own} is not what was written");
    for string in strings(text) {
        assert!(raw.contains(string), "{string} was not written");
    }
}

#[test]
fn any_text_as_arguments() {
    drive("arguments", some_text, |raw, dice| check(raw, dice.random()));
}

//! Any bytes as a stream: an answer of nothing but what stands in it, or a problem.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::value::RawValue;
use stepwell_llm::assemble::{Answer, Assembler, Problem};
use stepwell_llm::sse::SseDecoder;

use crate::drive::drive;
use crate::mutate::{damage, pick};

const WORDS: &[&str] = &[
    "data: ",
    "data:",
    "\n\n",
    "\r\n",
    "\r",
    ": ping\n",
    "event: error\n",
    "[DONE]",
    "null",
    "\"\"",
    "\"index\":0,",
    "\"index\":1,",
    "\"id\":\"a\",",
    "\"name\":\"f\"",
    "\"arguments\":\"{}\"",
    "\"finish_reason\":\"stop\"",
    "\"error\":{\"message\":\"x\"}",
    "\\ud83d",
    "\\u0000",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\u{feff}",
    "é",
];

/// Recorded streams, to begin with.
fn recorded() -> Vec<Vec<u8>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut streams = Vec::new();
    for folder in ["sse", "vllm", "dialects"] {
        let Ok(files) = fs::read_dir(data.join(folder)) else { continue };
        let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        paths.sort();
        for bytes in paths.into_iter().map(|path| fs::read(path).unwrap()) {
            let head = bytes.windows(4).position(|it| it == b"\r\n\r\n").map_or(0, |at| at + 4);
            let body = if bytes.starts_with(b"HTTP/") { &bytes[head..] } else { &bytes[..] };
            if body.starts_with(b"data:") && body.len() < 8_000 {
                streams.push(body.to_vec());
            }
        }
    }
    assert!(streams.len() > 40, "{} streams", streams.len());
    streams
}

/// A stream of calls in one of many dialects, right or wrong.
fn made_up(dice: &mut StdRng) -> Vec<u8> {
    let mut stream = String::new();
    for _ in 0..dice.random_range(1..12) {
        let mut pieces = Vec::new();
        for _ in 0..dice.random_range(0..3) {
            pieces.push(piece(dice));
        }
        let content =
            pick(dice, &["", "\"content\":\"x\",", "\"content\":null,", "\"reasoning\":\"r\","]);
        let finish = pick(
            dice,
            &["null", "null", "null", "null", "\"stop\"", "\"tool_calls\"", "\"length\"", "\"\""],
        );
        let choice = pick(dice, &["0", "0", "0", "0", "null", "1"]);
        let _ = write!(
            stream,
            r#"data: {{"choices":[{{"index":{choice},"delta":{{{content}"tool_calls":[{}]}},"finish_reason":{finish}}}]}}"#,
            pieces.join(",")
        );
        stream.push_str(pick(dice, &["\n\n", "\n\n", "\r\n\r\n", "\r\r"]));
    }
    if dice.random_ratio(3, 4) {
        stream.push_str("data: [DONE]\n\n");
    }
    stream.into_bytes()
}

fn piece(dice: &mut StdRng) -> String {
    let index =
        pick(dice, &["", "\"index\":0,", "\"index\":1,", "\"index\":2,", "\"index\":null,"]);
    let id = pick(
        dice,
        &["", "", "\"id\":\"a\",", "\"id\":\"b\",", "\"id\":\"\",", "\"id\":null,", "\"id\":7,"],
    );
    let name = pick(
        dice,
        &["", "", "\"name\":\"f\",", "\"name\":\"fg\",", "\"name\":\"\",", "\"name\":null,"],
    );
    let arguments = pick(
        dice,
        &[
            "\"\"",
            "\"{}\"",
            "\"{\\\"a\\\":\"",
            "\"1}\"",
            "{\"a\":1.0}",
            "null",
            "\"\\ud83d\"",
            "\"\\ude42\"",
            "[ ]",
        ],
    );
    format!(r#"{{{index}{id}"function":{{{name}"arguments":{arguments}}}}}"#)
}

fn answer(blocks: &[&[u8]]) -> Result<Answer, Problem> {
    let (mut decoder, mut assembler) = (SseDecoder::new(), Assembler::new());
    for block in blocks {
        decoder.decode(block, |event| assembler.push(event, &mut |_| {}).map(drop))?;
    }
    assembler.finish()
}

/// The same bytes in random blocks.
fn in_blocks<'a>(stream: &'a [u8], dice: &mut StdRng) -> Vec<&'a [u8]> {
    let mut borders: BTreeSet<usize> =
        (0..dice.random_range(0..20)).map(|_| dice.random_range(0..=stream.len())).collect();
    borders.extend([0, stream.len()]);
    let borders: Vec<usize> = borders.into_iter().collect();
    borders.windows(2).map(|it| &stream[it[0]..it[1]]).collect()
}

/// Every piece of a call that stands in the stream, in its order.
#[derive(Default)]
struct Said {
    ids: Vec<String>,
    names: Vec<String>,
    /// As UTF-16: a pair may be cut in two pieces.
    arguments: Vec<Vec<u16>>,
}

impl Said {
    fn of(stream: &[u8]) -> Self {
        let text = String::from_utf8_lossy(stream).replace("\r\n", "\n").replace('\r', "\n");
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut said = Self::default();
        for event in text.split("\n\n") {
            let lines = event.split('\n').filter_map(|line| line.strip_prefix("data:"));
            let data: Vec<&str> = lines.map(|it| it.strip_prefix(' ').unwrap_or(it)).collect();
            said.take(&data.join("\n"));
        }
        said
    }

    fn take(&mut self, data: &str) {
        let event = strict(data.trim());
        for choice in items(member(&event, "choices")) {
            for message in ["delta", "message"].map(|name| member(choice, name)) {
                for call in items(member(message, "tool_calls")) {
                    let id = member(call, "id");
                    let digits = || id.parse::<i64>().is_ok().then(|| id.to_owned());
                    self.ids.extend(words(id).or_else(digits));
                    self.function(member(call, "function"));
                }
                self.function(member(message, "function_call"));
            }
        }
    }

    fn function(&mut self, function: &str) {
        self.names.extend(words(member(function, "name")));
        let arguments = member(function, "arguments");
        // What is no text is kept as it was written.
        let text = serde_json::from_str(arguments);
        self.arguments.push(units(&text.unwrap_or_else(|_| arguments.to_owned())));
    }
}

/// The JSON of a member; nothing when there is none.
fn member<'a>(object: &'a str, name: &str) -> &'a str {
    let members = serde_json::from_str::<BTreeMap<String, &RawValue>>(object);
    members.ok().and_then(|it| it.get(name).map(|raw| raw.get())).unwrap_or_default()
}

/// The JSON of each item; nothing when it is no list.
fn items(list: &str) -> Vec<&str> {
    let items: Vec<&RawValue> = serde_json::from_str(list).unwrap_or_default();
    items.into_iter().map(RawValue::get).collect()
}

/// Text, or the texts of a list of parts.
fn words(json: &str) -> Option<String> {
    if json.starts_with('[') {
        return Some(items(json).into_iter().filter_map(|it| words(member(it, "text"))).collect());
    }
    let text: String = serde_json::from_str(json).ok()?;
    Some(text.chars().map(|it| half_of(it).map_or(it, |_| '\u{fffd}')).collect())
}

/// Where [`strict`] puts half surrogates: characters that nobody uses.
const HALVES: u32 = 0xf_0000;

/// The half that a character stands for.
fn half_of(character: char) -> Option<u16> {
    let at = u32::from(character).checked_sub(HALVES)?;
    (at < 0x800).then_some(0xd800 + at as u16)
}

/// A text as UTF-16, with its halves.
fn units(text: &str) -> Vec<u16> {
    let mut units = Vec::with_capacity(text.len());
    for character in text.chars() {
        match half_of(character) {
            Some(half) => units.push(half),
            None => units.extend_from_slice(character.encode_utf16(&mut [0; 2])),
        }
    }
    units
}

/// What the assembler reads and strict JSON lacks, in strict JSON: escapes of half surrogates become
/// what [`half_of`] knows, bare control characters in strings become escapes.
fn strict(json: &str) -> String {
    let unit = |at: usize| {
        let escape = json.get(at..at + 6).filter(|it| it.starts_with("\\u"))?;
        u32::from_str_radix(&escape[2..], 16).ok()
    };
    let (mut out, mut at, mut in_string) = (String::new(), 0, false);
    while let Some(character) = json[at..].chars().next() {
        let length = match unit(at) {
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => 12,
            Some(half @ 0xd800..=0xdfff) => {
                out.extend(char::from_u32(HALVES + half - 0xd800));
                at += 6;
                continue;
            }
            Some(_) => 6,
            None if character == '\\' => {
                1 + json[at + 1..].chars().next().map_or(0, char::len_utf8)
            }
            None if in_string && character < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
                at += 1;
                continue;
            }
            None => character.len_utf8(),
        };
        in_string ^= character == '"';
        out.push_str(&json[at..at + length]);
        at += length;
    }
    out
}

/// Whether `text` is some of `pieces` in their order, one behind the other.
fn is_made_of<T: PartialEq>(text: &[T], pieces: &[impl AsRef<[T]>]) -> bool {
    let mut ends = BTreeSet::from([0]);
    for piece in pieces.iter().map(AsRef::as_ref).filter(|it| !it.is_empty()) {
        let more: Vec<usize> = ends
            .iter()
            .filter(|end| text[**end..].starts_with(piece))
            .map(|end| end + piece.len())
            .collect();
        ends.extend(more);
    }
    ends.contains(&text.len())
}

fn check(stream: &[u8], dice: &mut StdRng) {
    let outcome = answer(&[stream]);
    assert_eq!(answer(&in_blocks(stream, dice)), outcome, "it depends on the blocks");
    let Ok(answer) = outcome else { return };
    if answer.tool_calls.is_empty() {
        return;
    }
    let said = Said::of(stream);
    for call in &answer.tool_calls {
        assert!(!call.name.is_empty(), "a call of nothing");
        assert!(is_made_of(call.name.as_bytes(), &said.names), "{:?} was not called", call.name);
        assert!(is_made_of(call.id.as_bytes(), &said.ids), "{:?} is no id", call.id);
        // An object is kept as it was written; the oracle knows it in strict JSON.
        let arguments = &call.arguments;
        let is_given = is_made_of(&units(arguments), &said.arguments)
            || is_made_of(&units(&strict(arguments)), &said.arguments);
        assert!(is_given, "{arguments:?} were not given");
    }
}

#[test]
fn any_bytes_as_a_stream() {
    let recorded = recorded();
    let make = |dice: &mut StdRng| {
        let choose = |dice: &mut StdRng| recorded[dice.random_range(0..recorded.len())].clone();
        let mut stream = if dice.random() { made_up(dice) } else { choose(dice) };
        if dice.random_ratio(3, 4) {
            let other = choose(dice);
            damage(&mut stream, WORDS, &other, dice);
        }
        stream
    };
    drive("stream", make, |stream, dice| check(stream, dice));
}

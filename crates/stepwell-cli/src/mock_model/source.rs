//! The TOML of a script, with the place of everything that can be wrong.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;
use toml::{Spanned, Value as Toml};

use super::faults::{Fault, FaultKind};
use super::length::default_max_model_len;
use super::script::{Counts, Pace, SaidCall, Script, ScriptError, Step, Story};
use super::template::Template;

/// Bytes of text in one event, about what a few tokens are.
const CHUNK_BYTES_DEFAULT: usize = 24;

/// Statuses that stand for a failure. A success without an answer is what other faults are for.
const FAULT_STATUSES: Range<u16> = 300..600;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScript {
    #[serde(default)]
    model: Option<String>,
    #[serde(default = "default_max_model_len")]
    max_model_len: u64,
    #[serde(default)]
    cache_tokens: Option<u64>,
    #[serde(default)]
    chunk_bytes: Option<usize>,
    #[serde(default)]
    delay_ms: Option<u64>,
    #[serde(default)]
    chunk_delay_ms: Option<u64>,
    #[serde(default)]
    step: Vec<Spanned<RawStep>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    #[serde(default)]
    step: Option<Spanned<u32>>,
    #[serde(default)]
    repeat: Option<Spanned<Times>>,
    #[serde(default)]
    when: Option<String>,
    #[serde(default)]
    when_last: Option<String>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    tool_calls: Vec<RawCall>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    usage: RawCounts,
    #[serde(default)]
    chunk_bytes: Option<usize>,
    #[serde(default)]
    delay_ms: Option<u64>,
    #[serde(default)]
    chunk_delay_ms: Option<u64>,
    #[serde(default)]
    fault: Faults,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    #[serde(default)]
    id: Option<String>,
    name: String,
    #[serde(default)]
    arguments: Option<Spanned<Toml>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCounts {
    #[serde(default, rename = "prompt_tokens")]
    prompt: Option<u64>,
    #[serde(default, rename = "cached_tokens")]
    cached: Option<u64>,
    #[serde(default, rename = "completion_tokens")]
    completion: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFault {
    kind: Spanned<RawKind>,
    #[serde(default)]
    times: Option<Spanned<Times>>,
    #[serde(default)]
    status: Option<Spanned<u16>>,
    #[serde(default)]
    retry_after: Option<Spanned<String>>,
    #[serde(default)]
    message: Option<Spanned<String>>,
    #[serde(default)]
    after_bytes: Option<Spanned<usize>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawKind {
    Status,
    Cut,
    Hang,
    ErrorInStream,
    Garbage,
}

/// A number of times, or no end of it (`None`).
#[derive(Clone, Copy)]
struct Times(Option<u32>);

/// One fault or a list of them.
#[derive(Default)]
struct Faults(Vec<RawFault>);

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TimesVisitor;
        impl Visitor<'_> for TimesVisitor {
            type Value = Times;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 1, or \"forever\", or \"always\"")
            }

            fn visit_i64<E: de::Error>(self, times: i64) -> Result<Times, E> {
                let fits = u32::try_from(times).ok().filter(|times| *times > 0);
                let unexpected = de::Unexpected::Signed(times);
                fits.map(|times| Times(Some(times)))
                    .ok_or_else(|| E::invalid_value(unexpected, &self))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Times, E> {
                let fits = matches!(word, "forever" | "always");
                let unexpected = de::Unexpected::Str(word);
                fits.then_some(Times(None)).ok_or_else(|| E::invalid_value(unexpected, &self))
            }
        }
        deserializer.deserialize_any(TimesVisitor)
    }
}

impl<'de> Deserialize<'de> for Faults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FaultsVisitor;
        impl<'de> Visitor<'de> for FaultsVisitor {
            type Value = Faults;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a fault or a list of faults")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Faults, A::Error> {
                let fault = RawFault::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Faults(vec![fault]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Faults, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Faults)
            }
        }
        deserializer.deserialize_any(FaultsVisitor)
    }
}

/// Something wrong, at a place of the text.
struct Wrong {
    span: Range<usize>,
    message: String,
}

fn wrong<T>(span: Range<usize>, message: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { span, message: message.into() })
}

/// Reads a script.
///
/// # Errors
/// What is wrong with it, and where.
pub(super) fn read(text: &str) -> Result<Script, ScriptError> {
    let raw: RawScript = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        error_at(text, start, error.message().to_owned())
    })?;
    build(raw).map_err(|Wrong { span, message }| error_at(text, span.start, message))
}

fn error_at(text: &str, offset: usize, message: String) -> ScriptError {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    ScriptError {
        line: before.matches('\n').count() + 1,
        column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
        message,
    }
}

fn build(raw: RawScript) -> Result<Script, Wrong> {
    if raw.step.is_empty() {
        return wrong(0..0, "a script needs at least one [[step]]");
    }
    let pace = Pace {
        chunk_bytes: raw.chunk_bytes.unwrap_or(CHUNK_BYTES_DEFAULT),
        delay: Duration::from_millis(raw.delay_ms.unwrap_or_default()),
        chunk_delay: Duration::from_millis(raw.chunk_delay_ms.unwrap_or_default()),
    };
    let mut stories: Vec<Story> = Vec::new();
    for step in raw.step {
        let span = step.span();
        let step = step.into_inner();
        let known = stories.iter().position(|story| story.when == step.when);
        let at = known.unwrap_or(stories.len());
        if known.is_none() {
            stories.push(Story { when: step.when.clone(), steps: Vec::new() });
        }
        if let Some(story) = stories.get_mut(at) {
            let step = build_step(step, span, story, pace)?;
            story.steps.push(step);
        }
    }
    // The story for all tasks is for those that no other story is for.
    stories.sort_by_key(|story| story.when.is_none());
    let model = raw.model.unwrap_or_else(|| "mock".into());
    let (max_model_len, cache_tokens) = (raw.max_model_len, raw.cache_tokens);
    Ok(Script { model, max_model_len, cache_tokens, stories })
}

fn build_step(raw: RawStep, span: Range<usize>, story: &Story, pace: Pace) -> Result<Step, Wrong> {
    if raw.content.is_none()
        && raw.reasoning.is_none()
        && raw.tool_calls.is_empty()
        && raw.fault.0.is_empty()
    {
        return wrong(span, "this step says nothing: give it content, tool_calls or a fault");
    }
    let (first, last) = numbers(&raw, span, story)?;
    let faults = raw.fault.0.into_iter().map(build_fault).collect::<Result<_, _>>()?;
    Ok(Step {
        first,
        last,
        when_last: raw.when_last,
        content: Template::new(&raw.content.unwrap_or_default()),
        reasoning: Template::new(&raw.reasoning.unwrap_or_default()),
        tool_calls: raw.tool_calls.into_iter().map(build_call).collect::<Result<_, _>>()?,
        finish_reason: raw.finish_reason,
        usage: Counts {
            prompt: raw.usage.prompt,
            cached: raw.usage.cached,
            completion: raw.usage.completion,
        },
        pace: Pace {
            chunk_bytes: raw.chunk_bytes.unwrap_or(pace.chunk_bytes),
            delay: raw.delay_ms.map_or(pace.delay, Duration::from_millis),
            chunk_delay: raw.chunk_delay_ms.map_or(pace.chunk_delay, Duration::from_millis),
        },
        faults,
    })
}

/// First and last number of a step. Where none is given it follows the step before, and an entry
/// that depends on the last message shares its number with the entry that follows it.
fn numbers(raw: &RawStep, span: Range<usize>, story: &Story) -> Result<(u32, Option<u32>), Wrong> {
    let span = raw.step.as_ref().map_or(span, Spanned::span);
    let first = match (&raw.step, story.steps.last()) {
        (Some(step), _) if *step.get_ref() == 0 => return wrong(span, "steps count from 1"),
        (Some(step), _) => *step.get_ref(),
        (None, None) => 1,
        (None, Some(before)) if before.when_last.is_some() => before.first,
        (None, Some(Step { last: Some(last), .. })) => last.saturating_add(1),
        (None, Some(_)) => {
            return wrong(span, "no step can follow one that is repeated forever");
        }
    };
    let times = raw.repeat.as_ref().map_or(Some(1), |times| times.get_ref().0);
    let last = times.map(|times| first.saturating_add(times - 1));
    let taken = |step: &&Step| {
        let begins_before_end = last.is_none_or(|last| step.first <= last);
        step.when_last.is_none() && begins_before_end && step.last.is_none_or(|it| first <= it)
    };
    if let Some(earlier) = story.steps.iter().find(taken) {
        let number = first.max(earlier.first);
        return wrong(span, format!("step {number} of this story was given before"));
    }
    Ok((first, last))
}

fn build_call(raw: RawCall) -> Result<SaidCall, Wrong> {
    let arguments = match raw.arguments {
        None => "{}".to_owned(),
        Some(arguments) => {
            let span = arguments.span();
            match arguments.into_inner() {
                Toml::String(text) => text,
                Toml::Table(table) => match to_json(&Toml::Table(table)) {
                    Some(json) => json.to_string(),
                    None => return wrong(span, "JSON has no numbers inf and nan"),
                },
                Toml::Integer(_)
                | Toml::Float(_)
                | Toml::Boolean(_)
                | Toml::Datetime(_)
                | Toml::Array(_) => {
                    return wrong(span, "arguments are a table, or text that is sent as it is");
                }
            }
        }
    };
    Ok(SaidCall {
        id: raw.id.as_deref().map(Template::new),
        name: raw.name,
        arguments: Template::new(&arguments),
    })
}

/// The JSON of a TOML value; `None` for numbers that JSON does not have.
fn to_json(value: &Toml) -> Option<Json> {
    Some(match value {
        Toml::String(text) => Json::from(text.as_str()),
        Toml::Integer(number) => Json::from(*number),
        Toml::Float(number) => Json::Number(serde_json::Number::from_f64(*number)?),
        Toml::Boolean(truth) => Json::from(*truth),
        Toml::Datetime(time) => Json::from(time.to_string()),
        Toml::Array(items) => Json::Array(items.iter().map(to_json).collect::<Option<_>>()?),
        Toml::Table(members) => {
            let members = members.iter().map(|(key, value)| Some((key.clone(), to_json(value)?)));
            Json::Object(members.collect::<Option<_>>()?)
        }
    })
}

fn build_fault(raw: RawFault) -> Result<Fault, Wrong> {
    let span = raw.kind.span();
    let kind = raw.kind.into_inner();
    let has_status = matches!(kind, RawKind::Status | RawKind::ErrorInStream);
    let has_bytes = matches!(kind, RawKind::Cut | RawKind::Hang);
    let misplaced = [
        raw.status.as_ref().filter(|_| !has_status).map(|it| (it.span(), "status")),
        raw.message.as_ref().filter(|_| !has_status).map(|it| (it.span(), "message")),
        raw.retry_after
            .as_ref()
            .filter(|_| kind != RawKind::Status)
            .map(|it| (it.span(), "retry_after")),
        raw.after_bytes.as_ref().filter(|_| !has_bytes).map(|it| (it.span(), "after_bytes")),
    ];
    if let Some((span, name)) = misplaced.into_iter().flatten().next() {
        return wrong(span, format!("this kind of fault has no {name}"));
    }
    let status = match raw.status {
        Some(status) if !FAULT_STATUSES.contains(status.get_ref()) => {
            return wrong(status.span(), "a fault has a status from 300 to 599");
        }
        Some(status) => Some(status.into_inner()),
        None if kind == RawKind::Status => return wrong(span, "this kind of fault needs a status"),
        None => None,
    };
    let status = status.unwrap_or(500);
    let message = raw.message.map(Spanned::into_inner);
    let message = message.unwrap_or_else(|| "the script says so".into());
    let after_bytes = raw.after_bytes.map(Spanned::into_inner);
    let kind = match kind {
        RawKind::Status => {
            let retry_after = raw.retry_after.map(Spanned::into_inner);
            FaultKind::Status { status, retry_after, message }
        }
        RawKind::Cut => FaultKind::Cut { after_bytes },
        RawKind::Hang => FaultKind::Hang { after_bytes: after_bytes.unwrap_or(0) },
        RawKind::ErrorInStream => FaultKind::ErrorInStream { status, message },
        RawKind::Garbage => FaultKind::Garbage,
    };
    let times = raw.times.map_or(Some(1), |times| times.into_inner().0);
    Ok(Fault { kind, times })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_error(text: &str, line: usize, column: usize, words: &str) {
        let error = read(text).unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{error}");
        assert!(error.message.contains(words), "{error}");
    }

    fn numbers_of(text: &str) -> Vec<(Option<String>, u32, Option<u32>)> {
        let script = read(text).unwrap();
        let steps = |story: Story| {
            let when = story.when;
            story.steps.into_iter().map(move |step| (when.clone(), step.first, step.last))
        };
        script.stories.into_iter().flat_map(steps).collect()
    }

    #[test]
    fn steps_are_numbered_by_their_story() {
        let text = "
            [[step]]
            content = 'a'
            [[step]]
            when = 'x'
            content = 'b'
            repeat = 3
            [[step]]
            when = 'x'
            content = 'c'
            when_last = 'no'
            [[step]]
            when = 'x'
            content = 'd'
            repeat = 'forever'
            [[step]]
            content = 'e'
            step = 7
            [[step]]
            content = 'f'
        ";
        let x = || Some("x".to_owned());
        let expected = [
            (x(), 1, Some(3)),
            (x(), 4, Some(4)),
            (x(), 4, None),
            (None, 1, Some(1)),
            (None, 7, Some(7)),
            (None, 8, Some(8)),
        ];
        assert_eq!(numbers_of(text), expected);
    }

    #[test]
    fn arguments_are_a_table_or_text() {
        let text = "
            [[step]]
            tool_calls = [
              { name = 'f', arguments = { n = 7, x = 1.5, list = [true, 'a'], at = 2026-11-30 } },
              { name = 'g', arguments = '{broken' },
              { name = 'h' },
            ]
        ";
        let script = read(text).unwrap();
        let calls = &script.stories[0].steps[0].tool_calls;
        let arguments: Vec<_> = calls.iter().map(|call| call.arguments.clone()).collect();
        let json = r#"{"at":"2026-11-30","list":[true,"a"],"n":7,"x":1.5}"#;
        assert_eq!(arguments, [json, "{broken", "{}"].map(Template::new));
    }

    #[test]
    fn faults_are_one_or_a_list() {
        let text = "
            [[step]]
            fault = { kind = 'cut' }
            [[step]]
            fault = [
              { kind = 'status', status = 429, retry_after = '1', times = 2 },
              { kind = 'hang', times = 'always' },
            ]
            [[step]]
            [[step.fault]]
            kind = 'garbage'
        ";
        let script = read(text).unwrap();
        let steps = &script.stories[0].steps;
        let cut = Fault { kind: FaultKind::Cut { after_bytes: None }, times: Some(1) };
        assert_eq!(steps[0].faults, [cut]);
        let message = "the script says so".to_owned();
        let status = FaultKind::Status { status: 429, retry_after: Some("1".into()), message };
        let hang = Fault { kind: FaultKind::Hang { after_bytes: 0 }, times: None };
        assert_eq!(steps[1].faults, [Fault { kind: status, times: Some(2) }, hang]);
        assert_eq!(steps[2].faults, [Fault { kind: FaultKind::Garbage, times: Some(1) }]);
    }

    #[test]
    fn a_typo_is_named_with_its_place() {
        check_error("[[step]]\ncontent = 'a'\ncontnt = 'b'\n", 3, 1, "unknown field `contnt`");
        check_error("[[step]\n", 1, 8, "");
        check_error("[[step]]\ncontent = 7\n", 2, 11, "invalid type");
        check_error("[[step]]\nfault = { kind = 'cutt' }\n", 2, 18, "unknown variant `cutt`");
        check_error("[[step]]\ntool_calls = [{ nam = 'f' }]\n", 2, 17, "unknown field `nam`");
        check_error("# ä\n[[steps]]\n", 2, 3, "unknown field `steps`");
        check_error("[[step]]\ncontent = 'a'\nrepeat = 0\n", 3, 10, "a number from 1");
        check_error("[[step]]\ncontent = 'a'\nrepeat = 'ever'\n", 3, 10, "forever");
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_place() {
        check_error("", 1, 1, "at least one");
        check_error("model = 'm'\n\n[[step]]\nwhen = 'x'\n", 3, 1, "says nothing");
        check_error("[[step]]\ncontent = 'a'\nstep = 0\n", 3, 8, "from 1");
        let text = "[[step]]\ncontent='a'\nrepeat=5\n[[step]]\ncontent='b'\nstep=3\n";
        check_error(text, 6, 6, "step 3 of this story was given before");
        let text = "[[step]]\ncontent='a'\nrepeat='forever'\n[[step]]\ncontent='b'\n";
        check_error(text, 4, 1, "repeated forever");
        let text = "[[step]]\ntool_calls = [{ name = 'f', arguments = 7 }]\n";
        check_error(text, 2, 41, "arguments are a table");
        let text = "[[step]]\ntool_calls = [{ name = 'f', arguments = { x = nan } }]\n";
        check_error(text, 2, 41, "inf and nan");
        check_error("[[step]]\nfault = { kind = 'status' }\n", 2, 18, "needs a status");
        let text = "[[step]]\nfault = { kind = 'status', status = 200 }\n";
        check_error(text, 2, 37, "from 300 to 599");
        let text = "[[step]]\nfault = { kind = 'cut', status = 429 }\n";
        check_error(text, 2, 34, "has no status");
    }
}

//! `fork`: a new session that begins as another did and goes on otherwise.

use serde::Deserialize;
use serde_json::value::RawValue;
use stepwell_proto::v1::change::{Arguments, Call, Change as Kind, ModelReply, ToolResult};
use stepwell_proto::v1::{Change, ForkSessionRequest, ForkSessionResponse, Hazard};

use crate::args::ForkArgs;
use crate::commands::submit::{Agent, random_key};
use crate::commands::{
    Context, actor, answer_keyed, expected, read_file, refuse_file, text_or_file,
};
use crate::exit::{Exit, UsageError};
use crate::out::{Out, Tone};
use crate::view;
use crate::view::visible::brief;

pub(in crate::commands) async fn run(context: &Context, args: ForkArgs) -> anyhow::Result<Exit> {
    refuse_file(&args.session.id)?;
    let (flags, names_at) = (flags(&args), args.at.is_some());
    let request = request(args)?;
    let client = context.client().await?;
    let call = async || client.history().fork_session(request.clone()).await;
    let answered = answer_keyed(&client, call).await;
    let response: ForkSessionResponse =
        answered.map_err(|error| in_flags(error, &flags, names_at))?;
    let out = context.out;
    if out.is_json {
        out.json(&view::json_history::forked(&response))?;
        return Ok(Exit::Ok);
    }
    hazards(out, &response)?;
    if request.dry_run {
        out.faint_remark("nothing was done: leave out --dry-run to fork");
        return Ok(Exit::Ok);
    }
    let session = expected(response.session.as_ref(), "session")?;
    out.line(&view::session::line(session, out.paint))?;
    let id = &session.session_id;
    let next = if request.paused { "resume" } else { "tail -f" };
    out.faint_remark(&format!("next: stepwell {next} {id}"));
    Ok(Exit::Ok)
}

/// What the source did after that moment stays done.
fn hazards(out: Out, response: &ForkSessionResponse) -> anyhow::Result<()> {
    out.line(&format!("shares the events up to {}", response.at_seq))?;
    let files = if response.shares_workspace {
        format!(
            "works in the source's folder {}: its files are as they are now",
            response.workspace
        )
    } else {
        format!("works in the folder {}", response.workspace)
    };
    out.line(&files)?;
    if response.hazards.is_empty() {
        return out
            .line("then no tool that writes was on its way, and after that none was started");
    }
    let all_later = response.hazards.iter().all(|it| it.seq > response.at_seq);
    let calls = calls_in_words(response.hazards.len(), all_later);
    let all_given = response.hazards.iter().all(|it| it.result_given);
    let then = if all_given { "the fork is told otherwise" } else { "may be done again" };
    let title = format!("{calls}: done is done, and {then}");
    out.line(&out.paint.tone(Tone::Attention, title))?;
    for hazard in &response.hazards {
        let call = format!("{} {}", brief(&hazard.tool), brief(&hazard.arguments));
        let came_to = out.paint.faint(came_to(hazard, response.at_seq));
        out.line(&format!("  {}  {call}  {came_to}", hazard.call_id))?;
    }
    Ok(())
}

fn calls_in_words(count: usize, all_later: bool) -> String {
    let (calls, before) = match count {
        1 => ("1 call of a write tool".to_owned(), "was on its way or "),
        _ => (format!("{count} calls of write tools"), "were on their way or "),
    };
    format!("{calls} {}ran after that", if all_later { "" } else { before })
}

/// What it came to in the source, and what the fork does about what was on its way.
fn came_to(hazard: &Hazard, at_seq: u64) -> String {
    match (hazard.ending.as_str(), hazard.seq > at_seq) {
        (ending, true) if hazard.result_given => {
            format!("{ending}, stays done; the fork is told otherwise")
        }
        (ending, false) if hazard.result_given => {
            format!("{ending}, was on its way and stays done; the fork is told otherwise")
        }
        ("not_started", _) => "not started then: the fork starts it if its rules let it".to_owned(),
        (ending, true) => ending.to_owned(),
        (ending, false) => {
            format!("{ending}, was on its way: the fork asks a person what became of it")
        }
    }
}

/// What was given for each change, in the order of [`changes`].
fn flags(args: &ForkArgs) -> Vec<String> {
    let named = |flag: &str, text: &str| {
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        format!("{flag} {}=…", brief(name))
    };
    let mut flags = Vec::new();
    flags.extend(args.results.iter().map(|it| named("--result", it)));
    flags.extend(args.errors.iter().map(|it| named("--error", it)));
    flags.extend(args.arguments.iter().map(|it| named("--arguments", it)));
    flags.extend(args.reply.iter().map(|it| named("--reply", it)));
    flags.extend(args.message.iter().map(|_| "--message".to_owned()));
    flags
}

/// What the server advises when a change does not fit the moment of the fork.
const OTHER_PLACE: &str = ": fork there, or leave the event out";

/// The server counts changes; a person gave flags: `changes[0].call_id: …`. Without `--at` the first
/// change chose the moment, and another one does not fit it.
fn in_flags(error: anyhow::Error, flags: &[String], names_at: bool) -> anyhow::Error {
    let text = error.to_string();
    let found = text.strip_prefix("changes[").and_then(|rest| {
        let (index, rest) = rest.split_once(']')?;
        let (_, problem) = rest.split_once(": ")?;
        Some((flags.get(index.parse::<usize>().ok()?)?, problem))
    });
    match found {
        Some((flag, problem)) => {
            let advice = if names_at {
                ": fork there, or leave --at out"
            } else {
                ": leave one of the changes out, or name a moment that fits all with --at"
            };
            anyhow::anyhow!("{flag}: {}", problem.replace(OTHER_PLACE, advice))
        }
        None => error,
    }
}

fn request(args: ForkArgs) -> anyhow::Result<ForkSessionRequest> {
    let mut request = ForkSessionRequest {
        session_id: args.session.id.clone(),
        at_seq: args.at.unwrap_or_default(),
        changes: changes(&args)?,
        model: args.model.unwrap_or_default(),
        base_url: args.base_url.unwrap_or_default(),
        instructions: args
            .instructions
            .as_deref()
            .map(instructions)
            .transpose()?
            .unwrap_or_default(),
        title: args.title.unwrap_or_default(),
        workspace: args.workspace.unwrap_or_default(),
        paused: args.paused,
        dry_run: args.dry_run,
        client_key: random_key()?,
        forked_by: actor(&args.actor)?,
        ..ForkSessionRequest::default()
    };
    match args.agent.as_deref().map(Agent::of) {
        None => {}
        Some(Agent::File(path)) => request.agent_definition = read_file(path)?,
        Some(Agent::Stored { name, version }) => {
            name.clone_into(&mut request.agent);
            request.agent_version = version;
        }
    }
    Ok(request)
}

fn instructions(text: &str) -> anyhow::Result<String> {
    let read = text_or_file(text)?;
    if read.is_empty() {
        // The server would take it for none given.
        return Err(UsageError(format!("--instructions {text}: this is empty")).into());
    }
    Ok(read)
}

fn changes(args: &ForkArgs) -> anyhow::Result<Vec<Change>> {
    let mut changes = Vec::new();
    for (texts, is_error) in [(&args.results, false), (&args.errors, true)] {
        for text in texts {
            let (call_id, output) = named(text, "CALL=TEXT, for example 3.1=ok")?;
            changes.push(Kind::ToolResult(ToolResult { call_id, is_error, output }));
        }
    }
    for text in &args.arguments {
        let (call_id, arguments) = named(text, "CALL=JSON, for example 3.1={}")?;
        changes.push(Kind::Arguments(Arguments { call_id, arguments }));
    }
    if let Some(text) = &args.reply {
        let (step, reply) = named(text, "STEP=TEXT, for example 2=done")?;
        changes.push(Kind::ModelReply(model_reply(step_of(&step)?, reply)?));
    }
    if let Some(text) = &args.message {
        changes.push(Kind::Message(text_or_file(text)?));
    }
    Ok(changes.into_iter().map(|change| Change { change: Some(change) }).collect())
}

/// Steps are counted from 1.
fn step_of(text: &str) -> anyhow::Result<u32> {
    text.parse().ok().filter(|step| *step > 0).ok_or_else(|| {
        let problem = format!(
            "--reply {text}=…: {text:?} is no step, they are counted from 1: write STEP=TEXT, for \
             example 2=done"
        );
        UsageError(problem).into()
    })
}

/// `NAME=TEXT`, where the text may be `@FILE`.
fn named(text: &str, example: &str) -> anyhow::Result<(String, String)> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(UsageError(format!("{text:?} has no `=`: write {example}")).into());
    };
    Ok((name.trim().to_owned(), text_or_file(value)?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyFile {
    #[serde(default)]
    content: String,
    #[serde(default)]
    calls: Vec<CallFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallFile {
    tool: String,
    arguments: Box<RawValue>,
}

/// Plain words, or a JSON object with words and calls.
fn model_reply(step: u32, text: String) -> anyhow::Result<ModelReply> {
    if !text.trim_start().starts_with('{') {
        return Ok(ModelReply { step, content: text, calls: Vec::new() });
    }
    let parsed: Result<ReplyFile, _> = serde_json::from_str(&text);
    let reply = parsed.map_err(|error| {
        UsageError(format!(
            "--reply {step}=…: this is no reply: {error}; write words, or {{\"content\": \"…\", \
             \"calls\": [{{\"tool\": \"…\", \"arguments\": {{…}}}}]}}"
        ))
    })?;
    let calls = reply
        .calls
        .into_iter()
        .map(|call| Call { tool: call.tool, arguments: call.arguments.get().to_owned() });
    Ok(ModelReply { step, content: reply.content, calls: calls.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_words_or_json() {
        let plain = model_reply(2, "done".to_owned()).unwrap();
        assert_eq!((plain.content.as_str(), plain.calls.len()), ("done", 0));
        let json = r#"{"content":"","calls":[{"tool":"find","arguments":{"n":1.50}}]}"#;
        let reply = model_reply(2, json.to_owned()).unwrap();
        assert_eq!(reply.calls[0].arguments, r#"{"n":1.50}"#);
        let error = model_reply(2, r#"{"text":1}"#.to_owned()).unwrap_err();
        assert!(error.to_string().contains("unknown field `text`"), "{error}");
    }

    #[test]
    fn a_step_is_a_number_from_one() {
        assert_eq!(step_of("2").unwrap(), 2);
        for wrong in ["0", "x", "", "-1"] {
            let error = step_of(wrong).unwrap_err();
            assert!(error.is::<UsageError>() && error.to_string().contains("counted from 1"));
        }
    }

    #[test]
    fn a_change_that_is_refused_is_named_by_its_flag() {
        let flags = ["--result nine=…".to_owned()];
        let said =
            |text: &str| in_flags(anyhow::Error::msg(text.to_owned()), &flags, true).to_string();
        assert_eq!(said("changes[0].call_id: is none"), "--result nine=…: is none");
        for other in ["changes[7].call_id: is none", "changes: are 200", "session 01J: no"] {
            assert_eq!(said(other), other);
        }
    }

    #[test]
    fn a_change_that_does_not_fit_its_moment_says_what_of_the_command_to_change() {
        let flags = ["--result 3.1=…".to_owned()];
        let said = |names_at| {
            let text = format!("changes[0].call_id: at event 9 it is open 4{OTHER_PLACE}");
            in_flags(anyhow::Error::msg(text), &flags, names_at).to_string()
        };
        assert!(said(true).ends_with("fork there, or leave --at out"), "{}", said(true));
        assert!(said(false).ends_with("fits all with --at"), "{}", said(false));
        assert!(!said(false).contains("the event"));
    }

    #[test]
    fn a_hazard_says_what_the_fork_does_about_it() {
        let hazard = |seq, ending: &str, result_given| Hazard {
            seq,
            ending: ending.to_owned(),
            result_given,
            ..Hazard::default()
        };
        for (hazard, words) in [
            (hazard(9, "ok", false), "ok"),
            (hazard(8, "ok", false), "ok, was on its way: the fork asks a person"),
            (hazard(7, "not_started", false), "not started then: the fork starts it"),
            (hazard(9, "ok", true), "ok, stays done; the fork is told otherwise"),
            (
                hazard(8, "unknown", true),
                "unknown, was on its way and stays done; the fork is told",
            ),
        ] {
            let said = came_to(&hazard, 8);
            assert!(said.starts_with(words), "{said}");
        }
    }

    #[test]
    fn hazards_are_one_or_many() {
        for (count, all_later, words) in [
            (1, true, "1 call of a write tool ran after that"),
            (1, false, "1 call of a write tool was on its way or ran after that"),
            (2, false, "2 calls of write tools were on their way or ran after that"),
        ] {
            assert_eq!(calls_in_words(count, all_later), words);
        }
    }

    #[test]
    fn a_change_names_what_it_changes() {
        assert_eq!(named("3.1=a=b", "").unwrap(), ("3.1".to_owned(), "a=b".to_owned()));
        assert!(named("3.1", "CALL=TEXT").unwrap_err().to_string().contains("CALL=TEXT"));
    }
}

//! `submit`: starts a session, and follows it when asked.

use std::io::{self, IsTerminal};
use std::path::Path;

use anyhow::bail;
use jiff::tz::TimeZone;
use stepwell_proto::v1::{CreateSessionRequest, GetSessionResponse, Session, SessionStatus};

use super::follow::{End, Follow, News, Then, follow};
use super::{Context, actor, answer_keyed, expected, get_session, read_file, text_or_stdin};
use crate::args::{SubmitArgs, WaitUntil};
use crate::client::Client;
use crate::exit::{Exit, UsageError};
use crate::progress::Spinner;
use crate::view;
use crate::view::event::Narrator;
use crate::view::live::Ticker;
use crate::view::session::Page;

/// Random bytes of a key that the user did not choose.
const KEY_BYTES: usize = 16;

pub(super) async fn run(context: &Context, args: SubmitArgs) -> anyhow::Result<Exit> {
    if args.agent.as_deref() == Some("-") && args.task.as_deref().is_none_or(|task| task == "-") {
        let problem = "task and agent cannot both come from stdin: write one of them into a file";
        return Err(UsageError(problem.to_owned()).into());
    }
    let task = match &args.task {
        Some(task) => text_or_stdin(task, "the task")?,
        None if io::stdin().is_terminal() => {
            let problem = "there is no task: stepwell submit \"Fix the failing test\"";
            return Err(UsageError(problem.to_owned()).into());
        }
        None => text_or_stdin("-", "the task")?,
    };
    let wait = args.wait;
    let (request, file) = request(args, task)?;
    let client = context.client().await?;
    let created = async || client.sessions().create_session(request.clone()).await;
    let response = answer_keyed(&client, created).await.map_err(|error| match &file {
        Some(file) => file.explain(context, &error),
        None => error,
    })?;
    let session = expected(response.session.as_ref(), "session")?;
    let out = context.out;
    if out.is_json {
        out.json(&view::json::created(session, response.created))?;
    } else {
        out.line(&view::session::line(session, out.paint))?;
        if !response.created {
            out.faint_remark("the key was used before: this is the session of then");
        }
        if wait.is_none() {
            let id = &session.session_id;
            out.faint_remark(&format!("follow it with: stepwell tail -f {id}"));
        }
    }
    match wait {
        None => Ok(Exit::Ok),
        Some(until) => wait_for(context, &client, session, until).await,
    }
}

/// A definition that was handed in from a file.
struct DefinitionFile {
    name: String,
    text: String,
}

impl DefinitionFile {
    /// Shows the lines that the error is about.
    fn explain(&self, context: &Context, error: &anyhow::Error) -> anyhow::Error {
        let (message, paint) = (error.to_string(), context.out.paint_err);
        anyhow::Error::msg(view::source::annotate(&self.name, &self.text, &message, paint))
    }
}

fn request(
    args: SubmitArgs,
    task: String,
) -> anyhow::Result<(CreateSessionRequest, Option<DefinitionFile>)> {
    let mut request = CreateSessionRequest {
        task,
        title: args.title.unwrap_or_default(),
        labels: args.labels.into_iter().collect(),
        workspace: args.workspace.unwrap_or_default(),
        paused: args.paused,
        client_key: match args.key {
            Some(key) => key,
            None => random_key()?,
        },
        submitted_by: actor(&args.actor)?,
        ..CreateSessionRequest::default()
    };
    let mut file = None;
    match args.agent.as_deref().map(Agent::of) {
        None => {}
        Some(Agent::File(path)) => {
            request.agent_definition = read_file(path)?;
            let text = request.agent_definition.clone();
            file = Some(DefinitionFile { name: path.display().to_string(), text });
        }
        Some(Agent::Stored { name, version }) => {
            name.clone_into(&mut request.agent);
            request.agent_version = version;
        }
    }
    Ok((request, file))
}

/// What `--agent` names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Agent<'a> {
    /// A definition in a file.
    File(&'a Path),
    /// A stored agent; version 0 is the latest.
    Stored {
        /// Its name.
        name: &'a str,
        /// 0 for the latest.
        version: u32,
    },
}

impl<'a> Agent<'a> {
    /// A path has a slash or ends with `.toml`; everything else is a name.
    pub(super) fn of(text: &'a str) -> Self {
        let path = Path::new(text);
        let is_toml = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("toml"));
        if is_toml || text.contains('/') || text == "-" {
            return Self::File(path);
        }
        match text.rsplit_once('@') {
            Some((name, version)) => match version.parse() {
                Ok(version) => Self::Stored { name, version },
                Err(_) => Self::Stored { name: text, version: 0 },
            },
            None => Self::Stored { name: text, version: 0 },
        }
    }
}

/// A key, so that a try after a broken connection starts no second session.
pub(super) fn random_key() -> anyhow::Result<String> {
    let mut bytes = [0; KEY_BYTES];
    if let Err(error) = getrandom::fill(&mut bytes) {
        bail!("no random numbers: {error}");
    }
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("cli-{}", hex.concat()))
}

async fn wait_for(
    context: &Context,
    client: &Client,
    session: &Session,
    until: WaitUntil,
) -> anyhow::Result<Exit> {
    let id = session.session_id.as_str();
    let mut watcher = Watcher::new(context, until == WaitUntil::Person);
    let what = Follow { client, session_id: id, after_seq: 0, events_only: context.out.is_json };
    let end = follow(what, &mut |news| watcher.take(&news)).await?;
    watcher.end()?;
    match end {
        End::Over(response, status) => {
            finish(context, &response)?;
            Ok(Exit::of_finished(status).unwrap_or(Exit::Error))
        }
        End::Stopped => {
            finish(context, &get_session(client, id).await?)?;
            Ok(Exit::NeedsPerson)
        }
        End::Interrupted => Ok(interrupted(context, id)),
    }
}

/// Says that the session goes on, and how to come back.
pub(super) fn interrupted(context: &Context, id: &str) -> Exit {
    context.out.remark(&format!(
        "\nthe session goes on without you\n  come back with: stepwell tail -f {id}\n  end it \
         with:    stepwell cancel {id}"
    ));
    Exit::Interrupted
}

/// The last line of a wait: how it ended, and the answer.
fn finish(context: &Context, response: &GetSessionResponse) -> anyhow::Result<()> {
    let session = expected(response.session.as_ref(), "session")?;
    let out = context.out;
    if out.is_json {
        return out.json(&view::json::shown(session, response));
    }
    out.line("")?;
    if !response.answer.is_empty() && session.status() == SessionStatus::Completed {
        let care = view::visible::Care::Prose;
        out.line(&view::visible::block(response.answer.trim_end(), care, out.paint))?;
        out.line("")?;
    }
    out.line(&view::session::line(session, out.paint))?;
    for question in view::session::questions(response) {
        out.remark(&question.lines(out.paint_err).join("\n"));
    }
    for command in view::session::next_commands(session, response) {
        out.remark(&format!("  {command}"));
    }
    Ok(())
}

/// Shows what happens while a session is followed.
pub(super) struct Watcher<'a> {
    context: &'a Context,
    /// Stop when the session waits for a person.
    stops_for_person: bool,
    narrator: Narrator,
    ticker: Ticker,
    spinner: Spinner,
    prints_chunks: bool,
    is_away: bool,
    /// What was said about waiting, so that it is said once.
    said: String,
}

impl<'a> Watcher<'a> {
    pub(super) fn new(context: &'a Context, stops_for_person: bool) -> Self {
        let out = context.out;
        Self {
            context,
            stops_for_person,
            narrator: Narrator::new(TimeZone::system(), out.paint, out.width),
            ticker: Ticker::new(out.paint),
            spinner: Spinner::new(out),
            prints_chunks: false,
            is_away: false,
            said: String::new(),
        }
    }

    /// With `--json`: live pieces are lines too.
    pub(super) fn print_chunks(&mut self, is_on: bool) {
        self.prints_chunks = is_on;
    }

    /// What was shown before.
    pub(super) fn narrator(&mut self) -> &mut Narrator {
        &mut self.narrator
    }

    pub(super) fn take(&mut self, news: &News<'_>) -> anyhow::Result<Then> {
        let out = self.context.out;
        match news {
            News::Event(event) if out.is_json => out.json(&view::json::Event::from(*event))?,
            News::Event(event) => {
                self.make_room()?;
                out.line(&self.narrator.line(event))?;
            }
            News::Chunk(chunk) if out.is_json => {
                if self.prints_chunks {
                    out.json(&view::json::LiveChunk::from(*chunk))?;
                }
            }
            News::Chunk(chunk) => {
                self.spinner.hide();
                let tool = self.narrator.tool_of(&chunk.call_id).map(str::to_owned);
                out.write(&self.ticker.chunk(chunk, tool.as_deref()))?;
            }
            News::Quiet(response) => return self.quiet(response),
            News::Away(refusal) => {
                if !self.is_away {
                    self.make_room()?;
                    out.faint_remark(&format!("{refusal}; trying again …"));
                }
                self.is_away = true;
            }
            News::Back => {
                if self.is_away {
                    out.faint_remark("the server answers again");
                }
                self.is_away = false;
            }
        }
        Ok(Then::Continue)
    }

    fn quiet(&mut self, response: &GetSessionResponse) -> anyhow::Result<Then> {
        let session = expected(response.session.as_ref(), "session")?;
        let needs_person = view::session::needs_person(session.status());
        if needs_person && self.stops_for_person {
            return Ok(Then::Stop);
        }
        let words = view::session::why(session);
        let next = view::session::next_commands(session, response).join("\n  or: ");
        if !next.is_empty() && self.said != next {
            self.make_room()?;
            self.say_what_is_asked(response, &words, &next);
            self.said = next;
        }
        if self.ticker.is_at_line_start() && !self.context.out.is_json {
            self.spinner.say(&words);
        }
        Ok(Then::Continue)
    }

    fn say_what_is_asked(&self, response: &GetSessionResponse, words: &str, next: &str) {
        let out = self.context.out;
        out.remark("");
        match response.open_approvals.first() {
            None => {
                out.remark(words);
                for question in view::session::questions(response) {
                    out.remark(&question.lines(out.paint_err).join("\n"));
                }
            }
            Some(approval) => {
                let page = Page { paint: out.paint_err, ..self.context.page() };
                out.remark(&view::approval::page(approval, &page).join("\n"));
            }
        }
        out.remark(&format!("      {next}\n"));
    }

    fn make_room(&mut self) -> anyhow::Result<()> {
        self.spinner.hide();
        let text = self.ticker.break_off();
        if text.is_empty() { Ok(()) } else { self.context.out.write(&text) }
    }

    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        self.make_room()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_a_file_when_it_looks_like_one() {
        for (text, expected) in [
            ("coder", Agent::Stored { name: "coder", version: 0 }),
            ("coder@3", Agent::Stored { name: "coder", version: 3 }),
            ("coder@x", Agent::Stored { name: "coder@x", version: 0 }),
            ("coder.toml", Agent::File(Path::new("coder.toml"))),
            ("./coder", Agent::File(Path::new("./coder"))),
            ("-", Agent::File(Path::new("-"))),
        ] {
            assert_eq!(Agent::of(text), expected, "{text}");
        }
    }

    #[test]
    fn each_submit_has_its_own_key() {
        let (first, second) = (random_key().unwrap(), random_key().unwrap());
        assert_ne!(first, second);
        assert_eq!(first.len(), "cli-".len() + 2 * KEY_BYTES);
    }
}

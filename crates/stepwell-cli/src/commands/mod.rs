//! The commands: each asks the server and shows the answer.

mod agents;
mod anchor;
mod approvals;
mod backup;
mod completions;
mod delete;
mod doctor;
mod events;
mod export;
mod follow;
mod history;
mod import;
mod lists;
mod mock_model;
mod otlp;
mod prune;
mod source;
mod steer;
mod stored;
mod submit;
mod target;
mod tree;
mod usage;
mod verify;

use std::fs;
use std::future::Future;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::tz::TimeZone;
use stepwell_proto::v1::{GetSessionRequest, GetSessionResponse, Session};
use tonic::Status;

use crate::args::{Actor, Cli, Command};
use crate::client::{Client, Refusal};
use crate::config::{Config, Surroundings};
use crate::exit::{Exit, UsageError};
use crate::out::Out;
use crate::progress::Spinner;
use crate::view::session::Page;
use crate::{demo, serve, time};
use source::Source;

/// Largest task, message or definition that is read from a file or stdin.
const INPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// What takes longer shows a sign of life.
const SHOW_PROGRESS_AFTER: Duration = Duration::from_millis(400);
/// Tries of a call that may be repeated.
const TRIES: u32 = 3;
/// Wait before the next try.
const RETRY_AFTER: Duration = Duration::from_millis(300);

/// What every command works with.
pub(crate) struct Context {
    /// Stdout and stderr.
    pub(crate) out: Out,
    /// The config file.
    pub(crate) config: Config,
    /// Address of the server.
    pub(crate) server: String,
}

impl Context {
    async fn client(&self) -> anyhow::Result<Client> {
        let mut spinner = Spinner::new(self.out);
        let connecting = Client::connect(&self.server);
        let words = format!("connecting to {}", self.server);
        Ok(with_progress(&mut spinner, &words, connecting).await?)
    }

    /// What a page of text needs to know.
    fn page(&self) -> Page {
        Page {
            now_ms: time::now_ms(),
            zone: TimeZone::system(),
            width: self.out.width,
            paint: self.out.paint,
            is_past: false,
        }
    }

    /// The session after an action: as JSON, or one line.
    fn acted(&self, session: Option<&Session>) -> anyhow::Result<Exit> {
        let session = expected(session, "session")?;
        if self.out.is_json {
            self.out.json(&crate::view::json::Session::from(session))?;
        } else {
            self.out.line(&crate::view::session::line(session, self.out.paint))?;
        }
        Ok(Exit::Ok)
    }
}

/// Runs one command.
pub(crate) async fn run(cli: Cli) -> anyhow::Result<Exit> {
    let global = cli.global;
    let config_path = global.config.as_deref().filter(|path| !path.as_os_str().is_empty());
    let config = Config::load(config_path, Surroundings::of_process())?;
    let server = config.server(global.server.as_deref());
    let context = Context { out: Out::new(global.json, global.color), config, server };
    match cli.command {
        Command::Serve(args) => {
            let settings = context.config.serve(&args)?;
            serve::run(settings, context.out.paint_err).await.map(|()| Exit::Ok)
        }
        Command::Worker(args) => {
            let settings = context.config.worker(&args, &context.server)?;
            serve::run_worker(settings, context.out.paint_err).await.map(|()| Exit::Ok)
        }
        Command::Demo(args) => demo::run(context.out, args).await.map(|()| Exit::Ok),
        Command::MockModel(args) => mock_model::run(&context, &args).await,
        // Boxed: they hold streams, and the others should not carry that much.
        Command::Submit(args) => Box::pin(submit::run(&context, args)).await,
        Command::Tail(args) => Box::pin(events::tail(&context, args)).await,
        Command::Events(args) => events::run(&context, args).await,
        Command::Ls(args) => lists::ls(&context, args).await,
        Command::Show(args)
            if args.at.is_none()
                && args.messages.is_none()
                && !Source::of(&args.session.id).is_file() =>
        {
            lists::show(&context, &args.session.id).await
        }
        Command::Show(args) => history::show_at(&context, &args).await,
        Command::Prompt(args) => history::prompt(&context, args).await,
        Command::Replay(args) => history::replay(&context, args).await,
        Command::Fork(args) => history::fork(&context, args).await,
        Command::Diff(args) => history::diff(&context, args).await,
        Command::Tree(args) => tree::run(&context, args).await,
        Command::Usage(args) => usage::run(&context, args).await,
        Command::Tools => lists::tools(&context).await,
        Command::Workers => lists::workers(&context).await,
        Command::Approvals(args) => approvals::list(&context, args).await,
        Command::Approve(args) => approvals::approve(&context, args).await,
        Command::Deny(args) => approvals::deny(&context, args).await,
        Command::Resolve(args) => approvals::resolve(&context, args).await,
        Command::Send(args) => steer::send(&context, args).await,
        Command::Cancel(args) => steer::cancel(&context, args).await,
        Command::Pause(args) => steer::pause(&context, args).await,
        Command::Resume(args) => steer::resume(&context, args).await,
        Command::Step(args) => Box::pin(history::step(&context, args)).await,
        Command::Explain(args) => history::explain(&context, &args.id).await,
        Command::Delete(args) => delete::run(&context, args).await,
        Command::Prune(args) => prune::run(&context, args).await,
        Command::Backup(args) => Box::pin(backup::run(&context, args)).await,
        Command::Export(args) => Box::pin(export::run(&context, args)).await,
        Command::View(args) => serve::show(context.out, args).await.map(|()| Exit::Ok),
        Command::Import(args) => Box::pin(import::run(&context, args)).await,
        Command::Anchor(args) => Box::pin(anchor::run(&context, args)).await,
        Command::Verify(args) => Box::pin(verify::run(&context, args)).await,
        Command::Agents(args) => agents::run(&context, args).await,
        Command::Doctor(args) => doctor::run(&context, &args).await,
        Command::Completions(args) => completions::run(&context, &args.shell),
    }
}

/// Shows that something goes on when it takes longer than a moment.
async fn with_progress<T>(spinner: &mut Spinner, words: &str, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(SHOW_PROGRESS_AFTER) => spinner.say(words),
    }
    let done = work.await;
    spinner.hide();
    done
}

/// The answer to a call that carries a key: it may be repeated when the connection breaks.
async fn answer_keyed<T>(
    client: &Client,
    call: impl AsyncFn() -> Result<tonic::Response<T>, Status>,
) -> anyhow::Result<T> {
    let mut tries = 1;
    loop {
        let error = match answer(client, call()).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        let is_broken = error.downcast_ref().is_some_and(|refusal: &Refusal| refusal.is_broken);
        if !is_broken || tries >= TRIES {
            return Err(error);
        }
        tries += 1;
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// A part that the server always sends.
fn expected<'a, T>(part: Option<&'a T>, what: &str) -> anyhow::Result<&'a T> {
    part.with_context(|| {
        format!("the server's answer has no {what}: it is another release than this command")
    })
}

/// What moves a session needs a server that has it.
fn refuse_file(what: &str) -> anyhow::Result<()> {
    if !Source::of(what).is_file() {
        return Ok(());
    }
    bail!(
        "{what} is an exported file, and nothing moves in one: bring it into a server with \
         `stepwell import {what}`, then name the session by its id"
    )
}

/// One session by id or the beginning of it.
async fn get_session(client: &Client, id: &str) -> anyhow::Result<GetSessionResponse> {
    let request = GetSessionRequest { session_id: id.to_owned() };
    answer(client, client.sessions().get_session(request)).await
}

/// The answer to a call, or what the server said instead. Shows that something goes on when it takes
/// longer than a moment.
async fn answer<T>(
    client: &Client,
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> anyhow::Result<T> {
    let mut spinner = Spinner::for_stderr();
    let words = format!("waiting for {}", client.server());
    match with_progress(&mut spinner, &words, call).await {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => Err(client.refusal_of_whom(&status).await.into()),
    }
}

/// Who acts.
fn actor(actor: &Actor) -> anyhow::Result<String> {
    let from_env = |name: &str| std::env::var(name).ok();
    let chosen = choose_actor(actor.by.as_deref(), from_env).or_else(login_name);
    chosen.ok_or_else(|| {
        let problem = "who you are is not known: give --by NAME, or set STEPWELL_USER";
        UsageError(problem.to_owned()).into()
    })
}

/// The name that the system knows this user by; containers often set no `USER`.
fn login_name() -> Option<String> {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten()?;
    Some(user.name)
}

fn choose_actor(flag: Option<&str>, env: impl Fn(&str) -> Option<String>) -> Option<String> {
    let flag = flag.map(str::to_owned);
    let candidates = [flag, env("STEPWELL_USER"), env("USER"), env("LOGNAME")];
    candidates
        .into_iter()
        .flatten()
        .map(|name| name.trim().to_owned())
        .find(|name| !name.is_empty())
}

/// Words that were given, or stdin for `-`.
fn text_or_stdin(text: &str, what: &str) -> anyhow::Result<String> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut bytes = Vec::new();
    io::stdin().lock().take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes).context("stdin")?;
    as_text(bytes, &format!("{what} on stdin"))
}

/// Words, or a file's content for `@FILE`.
fn text_or_file(text: &str) -> anyhow::Result<String> {
    match text.strip_prefix('@') {
        Some(file) => read_file(Path::new(file)),
        None => Ok(text.to_owned()),
    }
}

/// A text file; `-` is stdin.
fn read_file(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        return text_or_stdin("-", "the file");
    }
    let shown = path.display();
    let file = fs::File::open(path).with_context(|| format!("cannot open {shown}"))?;
    let mut bytes = Vec::new();
    file.take(INPUT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {shown}"))?;
    as_text(bytes, &shown.to_string())
}

fn as_text(bytes: Vec<u8>, what: &str) -> anyhow::Result<String> {
    if bytes.len() as u64 > INPUT_BYTES_MAX {
        bail!("{what} has more than {}", crate::view::when::bytes(INPUT_BYTES_MAX));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("{what} is not UTF-8 (byte {}): save it as UTF-8 and try again", at + 1)
    })
}

/// Whether a person sits at the keyboard.
fn is_attended() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_actor_is_the_flag_then_the_environment() {
        let env = |name: &str| match name {
            "STEPWELL_USER" => Some(" ".to_owned()),
            "USER" => Some("ada".to_owned()),
            _ => None,
        };
        assert_eq!(choose_actor(Some("grace"), env).as_deref(), Some("grace"));
        assert_eq!(choose_actor(None, env).as_deref(), Some("ada"));
        assert_eq!(choose_actor(Some(""), |_| None), None);
    }

    #[test]
    fn a_file_that_is_no_text_says_where() {
        let error = as_text(vec![b'a', b'b', 0xff], "x.toml").unwrap_err().to_string();
        assert!(error.starts_with("x.toml is not UTF-8 (byte 3)"), "{error}");
    }

    #[test]
    fn an_at_sign_names_a_file() {
        assert_eq!(text_or_file("{}").unwrap(), "{}");
        let error = text_or_file("@/nowhere/x.json").unwrap_err();
        assert!(error.to_string().contains("/nowhere/x.json"));
    }
}

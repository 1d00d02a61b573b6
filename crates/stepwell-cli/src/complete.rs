//! Shell completion that knows what the server has: session ids, open approvals, agents.
//!
//! Invariant: a person who presses TAB never waits for long and never sees an error. Whatever goes
//! wrong, or takes too long, gives no candidates.

use std::ffi::OsStr;
use std::time::Duration;

use clap::CommandFactory;
use clap::builder::StyledStr;
use clap_complete::CompleteEnv;
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use stepwell_proto::v1;

use crate::args::Cli;
use crate::client::Client;
use crate::config::{Config, Surroundings};
use crate::view::json::status_name;
use crate::view::session::needs_person;
use crate::view::table::cut_end;
use crate::view::visible::brief;

/// The server has this long to answer, so that the whole takes at most 150 ms.
const BUDGET: Duration = Duration::from_millis(120);
/// More candidates than these help nobody.
const CANDIDATES_MAX: u32 = 200;
/// Room for the title beside an id.
const TITLE_COLUMNS: usize = 48;

/// Answers a shell that asks for completions, and ends the process then. Does nothing in a usual run.
pub(crate) fn answer_shell() {
    CompleteEnv::with_factory(Cli::command).bin("stepwell").complete();
}

/// Sessions whose id begins with what was typed.
pub(crate) fn sessions(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(prefix) = current.to_str().map(str::to_owned) else { return Vec::new() };
    ask(async |client: &Client| {
        let request = v1::ListSessionsRequest {
            id_prefix: prefix,
            page_size: CANDIDATES_MAX,
            ..v1::ListSessionsRequest::default()
        };
        let response = client.sessions().list_sessions(request).await.ok()?.into_inner();
        Some(response.sessions.iter().enumerate().map(session_candidate).collect())
    })
}

fn session_candidate((place, session): (usize, &v1::Session)) -> CompletionCandidate {
    let title = cut_end(&brief(&session.title), TITLE_COLUMNS);
    let help = format!("{}  {title}", status_name(session.status()));
    // Those that need a person come first, then the newest.
    let order = if needs_person(session.status()) { 0 } else { CANDIDATES_MAX as usize };
    candidate(&session.session_id, &help).display_order(Some(order + place))
}

/// Open approvals whose id begins with what was typed.
pub(crate) fn approvals(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(prefix) = current.to_str().map(str::to_owned) else { return Vec::new() };
    ask(async |client: &Client| {
        let request = v1::ListApprovalsRequest {
            page_size: CANDIDATES_MAX,
            ..v1::ListApprovalsRequest::default()
        };
        let response = client.approvals().list_approvals(request).await.ok()?.into_inner();
        let fitting = response.approvals.iter().filter(|it| it.approval_id.starts_with(&prefix));
        Some(fitting.map(approval_candidate).collect())
    })
}

fn approval_candidate(approval: &v1::Approval) -> CompletionCandidate {
    let action = cut_end(&brief(&approval.arguments), TITLE_COLUMNS);
    candidate(&approval.approval_id, &format!("{} {action}", brief(&approval.tool)))
}

/// Stored agents whose name begins with what was typed.
pub(crate) fn agents(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(prefix) = current.to_str().map(str::to_owned) else { return Vec::new() };
    ask(async |client: &Client| {
        let request = v1::ListAgentsRequest::default();
        let response = client.agents().list_agents(request).await.ok()?.into_inner();
        let fitting = response.agents.iter().filter(|agent| agent.name.starts_with(&prefix));
        Some(
            fitting
                .map(|agent| candidate(&agent.name, &format!("version {}", agent.version)))
                .collect(),
        )
    })
}

/// Stored agents, and files that could be definitions.
pub(crate) fn agents_and_files(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut candidates = agents(current);
    candidates.extend(PathCompleter::file().complete(current));
    candidates
}

fn candidate(value: &str, help: &str) -> CompletionCandidate {
    CompletionCandidate::new(value).help(Some(StyledStr::from(help.to_owned())))
}

/// Asks the server, within [`BUDGET`] for everything.
fn ask<T>(question: impl AsyncFnOnce(&Client) -> Option<Vec<T>>) -> Vec<T> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let answer = runtime.block_on(async {
        let asked = async {
            let server = server()?;
            let client = Client::connect(&server).await.ok()?;
            question(&client).await
        };
        tokio::time::timeout(BUDGET, asked).await.ok().flatten()
    });
    // Dropping it would wait for a name lookup that hangs.
    runtime.shutdown_background();
    answer.unwrap_or_default()
}

/// The server that the unfinished command line, the environment or the config file names.
fn server() -> Option<String> {
    let flag = option_of_line("--server").or_else(|| std::env::var("STEPWELL_SERVER").ok());
    let config = option_of_line("--config").or_else(|| std::env::var("STEPWELL_CONFIG").ok());
    let config = config.map(std::path::PathBuf::from);
    let config = Config::load(config.as_deref(), Surroundings::of_process()).ok()?;
    Some(config.server(flag.as_deref()))
}

/// The value of an option on the command line that is being completed.
fn option_of_line(name: &str) -> Option<String> {
    let words = std::env::args_os().filter_map(|word| word.into_string().ok());
    option_of(words, name)
}

fn option_of(words: impl Iterator<Item = String>, name: &str) -> Option<String> {
    let mut words = words.skip_while(|word| word != "--").skip(1);
    while let Some(word) = words.next() {
        match word.strip_prefix(name) {
            Some("") => return words.next(),
            Some(value) => {
                if let Some(value) = value.strip_prefix('=') {
                    return Some(value.to_owned());
                }
            }
            None => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_the_unfinished_line_is_asked() {
        for (line, server) in [
            ("stepwell -- stepwell show --server http://h:1 01", Some("http://h:1")),
            ("stepwell -- stepwell --server=http://h:2 show 01", Some("http://h:2")),
            ("stepwell -- stepwell show 01", None),
            ("stepwell -- stepwell show --server", None),
            ("stepwell --server x show", None),
        ] {
            let words = line.split(' ').map(str::to_owned);
            assert_eq!(option_of(words, "--server").as_deref(), server, "{line}");
        }
    }

    #[test]
    fn sessions_that_need_a_person_come_first() {
        let session = |status: v1::SessionStatus| v1::Session {
            status: status.into(),
            title: "t\u{1b}".into(),
            ..v1::Session::default()
        };
        let busy = session_candidate((0, &session(v1::SessionStatus::Thinking)));
        let asks = session_candidate((1, &session(v1::SessionStatus::WaitingApproval)));
        assert!(asks.get_display_order() < busy.get_display_order());
        assert_eq!(asks.get_help().unwrap().to_string(), "waiting_approval  t<U+001B>");
    }
}

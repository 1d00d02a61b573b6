//! `doctor`: looks at everything a server needs, and says what to do about what is wrong.
//!
//! Invariant: it only looks. No folder, store or file is made.

mod sessions;
mod store;

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};
use serde::Serialize;
use stepwell_core::event::ModelErrorKind;
use stepwell_llm::listed::models;
use stepwell_llm::probe::{Capability, REST, Support, probe};
use stepwell_ports::ModelFailure;
use stepwell_proto::v1::ListWorkersRequest;
use stepwell_runtime::system::random_bytes;
use tokio::net::TcpListener;

use super::Context;
use crate::args::DoctorArgs;
use crate::client::{Client, RELEASE_HEADER};
use crate::config::DoctorSettings;
use crate::exit::Exit;
use crate::out::Tone;
use crate::view::{visible, when};

/// Below this a store soon stops writing.
const FREE_BYTES_MIN: u64 = 100_000_000;
/// Below this somebody should look.
const FREE_BYTES_LOW: u64 = 1_000_000_000;
/// So many models are named.
const MODELS_NAMED_MAX: usize = 5;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    Ok,
    Warn,
    Fail,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    status: Health,
    message: String,
    /// What to do about it; empty when nothing is to do.
    next: String,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, status: Health::Ok, message: message.into(), next: String::new() }
    }

    fn warn(check: &'static str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { check, status: Health::Warn, message: message.into(), next: next.into() }
    }

    fn fail(check: &'static str, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { check, status: Health::Fail, message: message.into(), next: next.into() }
    }
}

/// `doctor`.
pub(super) async fn run(context: &Context, args: &DoctorArgs) -> anyhow::Result<Exit> {
    let settings = context.config.doctor(args, &context.server)?;
    let mut worst = Health::Ok;
    let mut show = |finding: Finding| {
        worst = worst.max(finding.status);
        print(context, &finding)
    };
    show(config(context))?;
    show(data_folder(&settings.data))?;
    for finding in store::look(context, &settings.data).await? {
        show(finding)?;
    }
    show(disk(&settings.data))?;
    let client = Client::connect(&context.server).await;
    if let Some(listen) = settings.listen {
        show(port(listen, client.is_ok()).await)?;
    }
    let server_answers = client.is_ok();
    match client {
        Ok(client) => {
            for finding in server(&client).await {
                show(finding)?;
            }
            for finding in sessions::look(&client).await {
                show(finding)?;
            }
        }
        Err(refusal) => show(Finding::warn(
            "server",
            refusal.message,
            "start one when everything else is well",
        ))?,
    }
    let (finding, listed) = model(&settings, server_answers).await;
    show(finding)?;
    if let (Some(url), Some(model)) = (&args.model, settings.model.clone().or(listed)) {
        for finding in capabilities(url, &model, settings.api_key_env.as_deref()).await {
            show(finding)?;
        }
    }
    Ok(if worst == Health::Fail { Exit::Error } else { Exit::Ok })
}

fn print(context: &Context, finding: &Finding) -> anyhow::Result<()> {
    let out = context.out;
    if out.is_json {
        return out.json(finding);
    }
    let (word, tone) = match finding.status {
        Health::Ok => ("ok  ", Tone::Good),
        Health::Warn => ("warn", Tone::Attention),
        Health::Fail => ("fail", Tone::Bad),
    };
    let message = visible::brief(&finding.message);
    out.line(&format!("{}  {:8} {message}", out.paint.tone(tone, word), finding.check))?;
    if !finding.next.is_empty() {
        out.line(&format!("{:15}-> {}", "", visible::brief(&finding.next)))?;
    }
    Ok(())
}

fn config(context: &Context) -> Finding {
    match &context.config.path {
        Some(path) => Finding::ok("config", path.display().to_string()),
        None => Finding::ok("config", "no config file, the defaults are used"),
    }
}

/// The folder, or the nearest one above it that exists.
fn existing(folder: &Path) -> &Path {
    folder.ancestors().find(|it| it.exists()).unwrap_or_else(|| Path::new("."))
}

fn data_folder(folder: &Path) -> Finding {
    let shown = folder.display();
    let place = existing(folder);
    if folder.exists() && !folder.is_dir() {
        let next = "choose another one with --data, or move the file away";
        return Finding::fail("data", format!("{shown} is no folder"), next);
    }
    if let Err(error) = access(place, AccessFlags::W_OK | AccessFlags::X_OK) {
        let message = format!("{} is not writable: {}", place.display(), error.desc());
        return Finding::fail(
            "data",
            message,
            "give this user the right to write there, or choose --data",
        );
    }
    if place == folder {
        Finding::ok("data", format!("{shown} is there and writable"))
    } else {
        Finding::ok("data", format!("{shown} is not there yet; `stepwell serve` makes it"))
    }
}

fn disk(folder: &Path) -> Finding {
    let place = existing(folder);
    match statvfs(place) {
        Ok(disk) => {
            let free = disk.blocks_available().saturating_mul(disk.fragment_size());
            free_space(place, free)
        }
        Err(error) => Finding::warn(
            "disk",
            format!("the room at {} is not known: {}", place.display(), error.desc()),
            "look yourself: df -h",
        ),
    }
}

fn free_space(place: &Path, free: u64) -> Finding {
    let message = format!("{} free at {}", when::bytes(free), place.display());
    let next = "make room: when the disk is full, sessions wait";
    match free {
        _ if free < FREE_BYTES_MIN => Finding::fail("disk", message, next),
        _ if free < FREE_BYTES_LOW => Finding::warn("disk", message, next),
        _ => Finding::ok("disk", message),
    }
}

async fn port(listen: SocketAddr, server_answers: bool) -> Finding {
    match TcpListener::bind(listen).await {
        Ok(_) => Finding::ok("port", format!("{listen} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // Something there speaks our protocol.
            let ours = Client::connect(&format!("http://{listen}")).await;
            let is_ours = server_answers
                && match ours {
                    Ok(client) => client.agents().list_workers(ListWorkersRequest {}).await.is_ok(),
                    Err(_) => false,
                };
            if is_ours {
                Finding::ok("port", format!("a Stepwell server listens on {listen}"))
            } else {
                let message = format!("{listen} is in use by another program");
                Finding::fail("port", message, "stop it, or choose another address with --listen")
            }
        }
        Err(error) => Finding::fail(
            "port",
            format!("cannot listen on {listen}: {error}"),
            "choose an address of this machine with --listen",
        ),
    }
}

async fn server(client: &Client) -> Vec<Finding> {
    let address = client.server();
    let response = match client.agents().list_workers(ListWorkersRequest {}).await {
        Ok(response) => response,
        Err(status) => {
            let message = client.refusal_of_whom(&status).await.message;
            return vec![Finding::fail("server", message, "look at the server's log")];
        }
    };
    let release = response.metadata().get(RELEASE_HEADER).and_then(|it| it.to_str().ok());
    let own = env!("CARGO_PKG_VERSION");
    let answered = match release {
        None => Finding::ok("server", format!("{address} answers")),
        Some(release) if release == own => {
            Finding::ok("server", format!("{address} answers, release {release}"))
        }
        Some(release) => Finding::warn(
            "server",
            format!("{address} is release {release}, this command is {own}"),
            "use the same release on both sides",
        ),
    };
    let workers = response.into_inner().workers;
    let connected = if workers.is_empty() {
        let next = "start one: stepwell worker, or serve without --no-worker";
        Finding::warn("worker", "none is connected: tools wait", next)
    } else {
        let names: Vec<&str> = workers.iter().map(|worker| worker.name.as_str()).collect();
        Finding::ok("worker", format!("connected: {}", names.join(", ")))
    };
    vec![answered, connected]
}

/// What the server of `--model` truly supports. Only when it was named, because it asks the model.
async fn capabilities(url: &str, model: &str, key_env: Option<&str>) -> Vec<Finding> {
    let nonce = u128::from_le_bytes(random_bytes());
    match probe(url, model, key_env, nonce).await {
        Ok(found) => found.into_iter().map(capability).collect(),
        Err(failure) => {
            vec![Finding::fail("supports", failure.message, "start it, or check the URL")]
        }
    }
}

fn capability(found: Capability) -> Finding {
    let Capability { name, support, detail } = found;
    match support {
        Support::Yes => Finding::ok("supports", format!("{name}: {detail}")),
        Support::No => Finding::warn("supports", format!("no {name}"), detail),
        Support::Unknown if name == REST => {
            let next = "look at the log of the model server, then ask again";
            Finding::fail("supports", format!("{name}: {detail}"), next)
        }
        Support::Unknown => Finding::warn("supports", format!("{name}: not found out"), detail),
    }
}

/// Whether the model server answers, and the name of its first model.
async fn model(settings: &DoctorSettings, server_answers: bool) -> (Finding, Option<String>) {
    let Some(url) = &settings.model_url else {
        return (no_model(server_answers), None);
    };
    match models(url, settings.api_key_env.as_deref()).await {
        Ok(models) => {
            (models_found(url, &models, settings.model.as_deref()), models.first().cloned())
        }
        Err(failure) => (unlisted(&failure), None),
    }
}

/// The server does not say which models it has.
fn unlisted(failure: &ModelFailure) -> Finding {
    let next = match (failure.kind, failure.http_status) {
        (ModelErrorKind::Unauthorized, _) => "name the variable with its key: --api-key-env NAME",
        (ModelErrorKind::BadRequest | ModelErrorKind::BadResponse, _) => "check the URL",
        (_, None) => "start it, or check the URL",
        (_, Some(_)) => "look at the log of the model server",
    };
    Finding::fail("model", format!("{}: {}", failure.endpoint, failure.message), next)
}

/// The server was told its model server where it was started; what is known here is another matter.
fn no_model(server_answers: bool) -> Finding {
    if server_answers {
        let message = "not looked at: which model server the running server uses is not known here";
        let next = "to look at it: stepwell doctor --model URL".to_owned();
        return Finding { next, ..Finding::ok("model", message) };
    }
    Finding::warn(
        "model",
        "no model server is configured here",
        "each agent must name one, or: stepwell serve --model-url URL",
    )
}

fn models_found(url: &str, models: &[String], wanted: Option<&str>) -> Finding {
    if models.is_empty() {
        let message = format!("{url} answers, but lists no models");
        return Finding::fail("model", message, "load a model there, or check the URL");
    }
    let mut named = models.iter().take(MODELS_NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if models.len() > MODELS_NAMED_MAX {
        named.push_str(", …");
    }
    match wanted {
        Some(wanted) if !models.iter().any(|it| it == wanted) => Finding::warn(
            "model",
            format!("{url} answers, but has no model {wanted}: it has {named}"),
            "set the name of one of these: stepwell serve --model NAME",
        ),
        Some(wanted) => Finding::ok("model", format!("{url} serves {wanted}")),
        None => Finding::ok("model", format!("{url} serves {named}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_is_no_problem() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("a/b");
        let finding = data_folder(&data);
        assert_eq!(finding.status, Health::Ok);
        assert!(finding.message.contains("serve"), "{finding:?}");
        assert_eq!(store::check(&data, &mut |_| {}), []);
        assert!(!data.exists(), "doctor must not make the folder");
    }

    #[test]
    fn a_file_in_place_of_the_folder_is_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(data_folder(file.path()).status, Health::Fail);
    }

    #[test]
    fn a_full_disk_is_noticed_before_it_is_full() {
        for (free, status) in
            [(50_000_000, Health::Fail), (500_000_000, Health::Warn), (5_000_000_000, Health::Ok)]
        {
            assert_eq!(free_space(Path::new("/"), free).status, status);
        }
    }

    #[test]
    fn a_model_that_is_not_served_is_named_with_those_that_are() {
        let models = ["a".to_owned(), "b".to_owned()];
        assert_eq!(models_found("u", &models, Some("a")).status, Health::Ok);
        let finding = models_found("u", &models, Some("c"));
        assert_eq!(finding.status, Health::Warn);
        assert!(finding.message.contains("it has a, b"), "{finding:?}");
    }

    #[test]
    fn a_running_server_may_have_a_model_server_that_is_not_named_here() {
        let finding = no_model(true);
        assert_eq!(finding.status, Health::Ok);
        assert!(finding.next.contains("--model URL"), "{finding:?}");
        assert_eq!(no_model(false).status, Health::Warn);
    }

    #[tokio::test]
    async fn a_port_in_use_is_a_failure_unless_it_is_ours() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(port(address, false).await.status, Health::Fail);
        drop(listener);
        assert_eq!(port(address, false).await.status, Health::Ok);
    }
}

//! Models that go away, that stand in for others, that are told to stop, and that take no more.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use stepwell_proto::v1::watch_session_response::Item;
use stepwell_proto::v1::{
    CancelSessionRequest, SessionStatus, WatchSessionRequest, WatchSessionResponse,
};
use stepwell_tests::{
    Api, Cli, CountingWorker, Ev, MockModel, SOON, Server, agent_with, free_address,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tonic::Streaming;

/// A server and a worker without a model.
struct Scene {
    api: Api,
    server: Server,
    _worker: CountingWorker,
    folder: tempfile::TempDir,
}

impl Scene {
    async fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("stepwell-test-").tempdir()?;
        let mut server = Server::new(folder.path(), None)?.arguments(&["--no-worker"]);
        let api = server.start().await?;
        let worker = CountingWorker::start(folder.path(), &server.url())?;
        api.until_tool("look").await?;
        Ok(Self { api, server, _worker: worker, folder })
    }

    /// A model that plays `script`, in a folder of its own.
    async fn model(&self, name: &str, script: &str) -> Result<MockModel> {
        let folder = self.folder.path().join(name);
        std::fs::create_dir(&folder)?;
        MockModel::start(&folder, script).await
    }

    /// What a replay of the session from its log alone says, without any model there.
    async fn check_replay(&self, session_id: &str) -> Result<()> {
        let cli = Cli::new(&self.server.url(), self.folder.path());
        cli.run(&["replay", session_id]).await?.expect(0)
    }
}

fn of_kind<'e>(events: &'e [Ev], kind: &str) -> Vec<&'e Ev> {
    events.iter().filter(|it| it.kind == kind).collect()
}

fn completions(url: &str) -> String {
    format!("{url}/chat/completions")
}

/// What comes of the session, pieces of answers among it.
struct Pieces(Streaming<WatchSessionResponse>);

impl Pieces {
    /// Begins to watch; what comes from now on is seen.
    async fn of(api: &Api, session_id: &str) -> Result<Self> {
        let request = WatchSessionRequest {
            session_id: session_id.to_owned(),
            after_seq: 0,
            events_only: false,
            whole_payloads: false,
        };
        let mut pieces = Self(api.sessions().watch_session(request).await?.into_inner());
        pieces.until(|it| matches!(it, Item::CaughtUp(_))).await?;
        Ok(pieces)
    }

    /// Waits for a piece of the answer in that step.
    async fn until_step(&mut self, step: u32) -> Result<()> {
        self.until(|it| matches!(it, Item::Chunk(it) if it.step == step)).await
    }

    async fn until(&mut self, fits: impl Fn(&Item) -> bool) -> Result<()> {
        let finding = async {
            loop {
                let response = self.0.message().await?.context("the watch ended")?;
                if response.item.as_ref().is_some_and(&fits) {
                    return Ok(());
                }
            }
        };
        timeout(SOON, finding).await.context("nothing came")?
    }
}

/// The answer to step 2 takes about a second, so that there is a middle of it.
const SLOW: &str = r#"
[[step]]
tool_calls = [{ name = "look", arguments = { id = "a" } }]
[[step]]
content = "This answer comes slowly, piece by piece, and whole."
chunk_bytes = 1
chunk_delay_ms = 20
"#;

#[tokio::test]
async fn a_replica_that_is_killed_in_the_middle_of_its_answer_is_replaced_by_the_other()
-> Result<()> {
    let scene = Scene::start().await?;
    let mut models = [scene.model("one", SLOW).await?, scene.model("two", SLOW).await?];
    let (one, two) = (models[0].url().to_owned(), models[1].url().to_owned());
    let model = format!("[model]\nname = \"mock\"\nbase_url = {one:?}\nreplicas = [{two:?}]");
    let session_id = scene.api.create("Look around.", &agent_with(&["look"], &model)).await?;
    let is_reply = |it: &Ev| it.kind == "model_replied";
    let first = scene.api.until_event(&session_id, "a first reply", is_reply).await?;
    let holder = first.text("endpoint").to_owned();
    Pieces::of(&scene.api, &session_id).await?.until_step(2).await?;
    let (killed, left) = if holder == completions(&one) { (0, &two) } else { (1, &one) };
    models[killed].kill().await?;
    scene.api.until_status(&session_id, SessionStatus::Completed).await?;
    let events = scene.api.events(&session_id).await?;
    // It stayed with its replica as long as that was there, and broke off in the middle.
    let failures = of_kind(&events, "model_failed");
    let failed: Vec<_> =
        failures.iter().map(|it| (it.text("endpoint"), it.text("error"))).collect();
    ensure!(failed.first() == Some(&(holder.as_str(), "stream_broken")), "{failed:?}");
    ensure!(failed.iter().all(|(endpoint, _)| *endpoint == holder), "{failed:?}");
    let replies = of_kind(&events, "model_replied");
    let [_, last] = replies.as_slice() else { anyhow::bail!("{replies:?}") };
    ensure!(last.text("endpoint") == completions(left), "{last:?}");
    // Nothing of the broken answer is glued to the whole one.
    let said = "This answer comes slowly, piece by piece, and whole.";
    ensure!(last.text("content") == said, "{last:?}");
    ensure!(last.number("attempt") == failures.len() as u64 + 1, "{last:?}");
    drop(models);
    scene.check_replay(&session_id).await
}

#[tokio::test]
async fn a_fallback_model_answers_for_one_that_is_gone_and_the_events_name_it() -> Result<()> {
    let scene = Scene::start().await?;
    let spare = scene.model("spare", "[[step]]\ncontent = \"I stand in.\"").await?;
    let gone = format!("http://{}/v1", free_address()?);
    let model = format!(
        "[model]\nname = \"big\"\nbase_url = {gone:?}\n[[model.fallback]]\nname = \"spare\"\n\
         base_url = {:?}\nafter = 2",
        spare.url()
    );
    let session_id = scene.api.create("Say it.", &agent_with(&[], &model)).await?;
    scene.api.until_status(&session_id, SessionStatus::Completed).await?;
    let events = scene.api.events(&session_id).await?;
    let asked: Vec<_> =
        of_kind(&events, "model_requested").iter().map(|it| it.text("fallback")).collect();
    ensure!(asked == ["", "", "spare"], "{asked:?}");
    let failures = of_kind(&events, "model_failed");
    ensure!(failures.len() == 2, "{failures:?}");
    for it in failures {
        ensure!(it.text("endpoint") == completions(&gone) && it.text("error") == "transport");
    }
    let replies = of_kind(&events, "model_replied");
    let [reply] = replies.as_slice() else { anyhow::bail!("{replies:?}") };
    ensure!(reply.text("endpoint") == completions(spare.url()), "{reply:?}");
    ensure!(reply.actor.contains("spare"), "{}", reply.actor);
    drop(spare);
    scene.check_replay(&session_id).await
}

/// A server that takes nothing from here: its key is another one.
const REFUSES: &str = r#"
[[step]]
content = "never said"
fault = { kind = "status", status = 401, message = "wrong key", times = 100 }
"#;

#[tokio::test]
async fn a_replica_that_refuses_ends_no_session_that_another_can_serve() -> Result<()> {
    let scene = Scene::start().await?;
    let refuses = scene.model("refuses", REFUSES).await?;
    let serves = scene.model("serves", "[[step]]\ncontent = \"Served.\"").await?;
    let model = format!(
        "[model]\nname = \"mock\"\nbase_url = {:?}\nreplicas = [{:?}]",
        refuses.url(),
        serves.url()
    );
    let mut count = 0;
    for number in 0..6 {
        let task = format!("Say it, {number}.");
        let session_id = scene.api.create(&task, &agent_with(&[], &model)).await?;
        scene.api.until_status(&session_id, SessionStatus::Completed).await?;
        let events = scene.api.events(&session_id).await?;
        for it in of_kind(&events, "model_failed") {
            ensure!(it.text("endpoint") == completions(refuses.url()), "{it:?}");
            ensure!(it.text("error") == "unauthorized" && it.body["elsewhere"] == true, "{it:?}");
            count += 1;
        }
        scene.check_replay(&session_id).await?;
    }
    // It is asked once, and then left alone but for a try now and then.
    ensure!(count <= 4, "{count}");
    drop(serves);
    Ok(())
}

/// A server that is there and broken.
const BROKEN: &str = r#"
[[step]]
content = "never said"
fault = { kind = "status", status = 500, message = "broken", times = 1000 }
"#;

/// An account without money.
const EMPTY: &str = r#"
[[step]]
content = "never said"
fault = { kind = "status", status = 402, message = "insufficient_quota", times = 1000 }
"#;

#[tokio::test]
async fn one_sound_replica_among_broken_ones_is_found() -> Result<()> {
    let scene = Scene::start().await?;
    let serves = scene.model("serves", "[[step]]\ncontent = \"Served.\"").await?;
    for (name, script) in [("broken", BROKEN), ("empty", EMPTY), ("refuses", REFUSES)] {
        let one = scene.model(&format!("{name}-1"), script).await?;
        let two = scene.model(&format!("{name}-2"), script).await?;
        let model = format!(
            "[model]\nname = \"mock\"\nbase_url = {:?}\nreplicas = [{:?}, {:?}]",
            one.url(),
            two.url(),
            serves.url()
        );
        for number in 0..4 {
            let task = format!("Say it, {number}.");
            let session_id = scene.api.create(&task, &agent_with(&[], &model)).await?;
            scene.api.until_status(&session_id, SessionStatus::Completed).await?;
            let events = scene.api.events(&session_id).await?;
            let failed = of_kind(&events, "model_failed");
            let mut asked: Vec<_> = failed.iter().map(|it| it.text("endpoint")).collect();
            asked.sort_unstable();
            asked.dedup();
            ensure!(asked.len() == failed.len(), "{name}: one was asked twice: {failed:?}");
            scene.check_replay(&session_id).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_fallback_without_its_key_is_passed_over() -> Result<()> {
    let scene = Scene::start().await?;
    let spare = scene.model("spare", "[[step]]\ncontent = \"I stand in.\"").await?;
    let gone = format!("http://{}/v1", free_address()?);
    let fallbacks = |last: &str| {
        format!(
            "[model]\nname = \"big\"\nbase_url = {gone:?}\n[[model.fallback]]\nname = \"keyless\"\n\
             base_url = {:?}\nafter = 1\napi_key_env = \"STEPWELL_TEST_NO_SUCH_KEY\"\n{last}",
            spare.url()
        )
    };
    let last = format!("[[model.fallback]]\nname = \"spare\"\nbase_url = {:?}", spare.url());
    let session_id = scene.api.create("Say it.", &agent_with(&[], &fallbacks(&last))).await?;
    scene.api.until_status(&session_id, SessionStatus::Completed).await?;
    let events = scene.api.events(&session_id).await?;
    let asked: Vec<_> =
        of_kind(&events, "model_requested").iter().map(|it| it.text("fallback")).collect();
    ensure!(asked == ["", "keyless", "spare"], "{asked:?}");
    let errors: Vec<_> =
        of_kind(&events, "model_failed").iter().map(|it| it.text("error")).collect();
    ensure!(errors == ["transport", "unauthorized"], "{errors:?}");
    drop(spare);
    scene.check_replay(&session_id).await
}

/// Reads a request to its end.
async fn read_request(stream: &mut TcpStream) -> Result<()> {
    let (mut got, mut block) = (Vec::new(), vec![0; 16 * 1024]);
    loop {
        let count = stream.read(&mut block).await?;
        ensure!(count > 0, "the client left within its request");
        got.extend_from_slice(block.get(..count).unwrap_or_default());
        let text = String::from_utf8_lossy(&got).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.context("no length")?.trim().parse()?;
            if body.len() >= length {
                return Ok(());
            }
        }
    }
}

#[tokio::test]
async fn a_cancel_closes_the_connection_to_the_model() -> Result<()> {
    let scene = Scene::start().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    let model = format!("[model]\nname = \"m\"\nbase_url = {url:?}");
    let session_id = scene.api.create("Talk without end.", &agent_with(&[], &model)).await?;
    let (mut stream, _) = timeout(SOON, listener.accept()).await.context("nobody asks")??;
    read_request(&mut stream).await?;
    let mut pieces = Pieces::of(&scene.api, &session_id).await?;
    let delta = json!({"choices": [{"index": 0, "delta": {"content": "And then"}}]});
    let event = format!("data: {delta}\n\n");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100000\r\n";
    stream.write_all(format!("{head}\r\n{event}").as_bytes()).await?;
    pieces.until_step(1).await?;
    let request = CancelSessionRequest {
        session_id: session_id.clone(),
        reason: "enough".into(),
        requested_by: "tester".into(),
    };
    scene.api.sessions().cancel_session(request).await?;
    // The end of the connection, as the server of the model sees it: orderly or reset.
    let left = timeout(SOON, stream.read(&mut [0; 64])).await.context("it stays connected")?;
    ensure!(left.as_ref().map_or(true, |count| *count == 0), "{left:?}");
    scene.api.until_status(&session_id, SessionStatus::Cancelled).await?;
    Ok(())
}

/// Asks no tool for more than the model takes.
fn limited(max_model_len: u64) -> String {
    format!(
        "max_model_len = {max_model_len}\n[[step]]\n\
         tool_calls = [{{ name = \"look\", arguments = {{ id = \"a\" }} }}]\n\
         [[step]]\ncontent = \"It fits.\""
    )
}

async fn ended_with(
    scene: &Scene,
    model: &MockModel,
    task: &str,
    status: SessionStatus,
) -> Result<(String, Vec<Ev>)> {
    let model = format!("[model]\nname = \"mock\"\nbase_url = {:?}", model.url());
    let session_id = scene.api.create(task, &agent_with(&["look"], &model)).await?;
    scene.api.until_status(&session_id, status).await?;
    let events = scene.api.events(&session_id).await?;
    Ok((session_id, events))
}

#[tokio::test]
async fn a_prompt_that_cannot_fit_is_not_sent_and_ends_the_session_with_the_numbers() -> Result<()>
{
    let scene = Scene::start().await?;
    let model = scene.model("limited", &limited(3_000)).await?;
    let (limit_reached, completed) = (SessionStatus::LimitReached, SessionStatus::Completed);
    // Four bytes are a token there.
    let (session_id, events) =
        ended_with(&scene, &model, &"word ".repeat(4_000), limit_reached).await?;
    let failures = of_kind(&events, "model_failed");
    let [failure] = failures.as_slice() else { anyhow::bail!("{failures:?}") };
    ensure!(failure.text("error") == "context_too_long", "{failure:?}");
    ensure!(failure.body.get("http_status").is_none(), "it was sent: {failure:?}");
    ensure!(failure.text("message").starts_with("not sent"), "{failure:?}");
    let asked = of_kind(&events, "model_requested");
    let bytes = asked.first().context("it was not even wanted")?.number("prompt_bytes");
    let numbers = json!({"limit": 3_000, "prompt": bytes.div_ceil(4)});
    ensure!(failure.body.get("context") == Some(&numbers), "{failure:?}");
    let last = events.last().context("no events")?;
    ensure!(last.kind == "session_finished", "{last:?}");
    ensure!(last.text("reason").contains("the model takes 3000"), "{last:?}");
    scene.check_replay(&session_id).await?;
    // The same task fits a model that takes more, with all that the session adds to it.
    let wider = scene.model("wider", &limited(6_000)).await?;
    let (_, events) = ended_with(&scene, &wider, &"word ".repeat(4_000), completed).await?;
    ensure!(of_kind(&events, "model_failed").is_empty(), "{events:?}");
    Ok(())
}

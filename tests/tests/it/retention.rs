//! `delete`, `prune` and `backup`, on a server that runs.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use stepwell_proto::v1::backup_response::Item;
use stepwell_proto::v1::store_service_client::StoreServiceClient;
use stepwell_proto::v1::{ApprovalDecision, BackupRequest, BackupResponse, SessionStatus};
use stepwell_tests::{Server, Stage, agent_with, look, until};

/// A model that wants to pay.
const PAYER: &str = r#"
[[step]]
tool_calls = [{ name = "pay", arguments = { what = "rent" } }]
[[step]]
content = "It is paid."
"#;

/// A task that stands beside its event.
fn large_task() -> String {
    "Look at the sky. ".repeat(2_000)
}

/// A session that waits for an approval.
async fn waiting(stage: &Stage, task: &str) -> Result<String> {
    let session_id = stage.api.create(task, &agent_with(&["pay"], "")).await?;
    stage.api.until_approval(&session_id).await?;
    Ok(session_id)
}

/// A session that is over.
async fn completed(stage: &Stage, task: &str) -> Result<String> {
    let session_id = waiting(stage, task).await?;
    stage.api.decide(&session_id, ApprovalDecision::Approve).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    Ok(session_id)
}

/// Waits until nothing of deleted sessions is left in the file.
async fn until_swept(stage: &Stage) -> Result<()> {
    let looked = look(stage.server.data())?;
    until("an empty store", async || {
        let mut left = 0;
        for table in ["deletions", "events", "blobs", "blob_refs"] {
            left += looked.rows(table)?;
        }
        Ok((left == 0).then_some(()))
    })
    .await
}

#[tokio::test]
async fn delete_removes_what_is_over_and_says_what_to_do_about_the_rest() -> Result<()> {
    let stage = Stage::counting(PAYER).await?;
    let cli = stage.cli();
    let session_id = waiting(&stage, &large_task()).await?;
    let unasked = cli.run(&["delete", &session_id]).await?;
    unasked.expect(2)?;
    ensure!(unasked.stderr.contains("--yes"), "{}", unasked.stderr);
    let open = cli.run(&["delete", &session_id, "--yes"]).await?;
    open.expect(1)?;
    ensure!(open.stdout.contains("stepwell cancel"), "{}", open.stdout);
    cli.run(&["cancel", &session_id]).await?.expect(0)?;
    stage.api.until_status(&session_id, SessionStatus::Cancelled).await?;
    let gone = cli.one(&["delete", &session_id, "--yes"]).await?;
    ensure!(gone["outcome"] == "deleted" && gone["session_id"] == json!(session_id), "{gone}");
    ensure!(gone["events"].as_u64() > Some(3) && gone["bytes"].as_u64() > Some(500), "{gone}");
    for words in [&["show"][..], &["events"], &["tail", "-f"], &["cancel"], &["tree"]] {
        let ran = cli.run(&[words, &[session_id.as_str()]].concat()).await?;
        ran.expect(1)?;
        ensure!(ran.stderr.contains("there is no session"), "{words:?}: {}", ran.stderr);
    }
    cli.run(&["delete", &session_id, "--yes"]).await?.expect(1)?;
    ensure!(cli.json(&["approvals", "--status", "open,void,denied"]).await?.is_empty());
    until_swept(&stage).await
}

#[tokio::test]
async fn what_was_deleted_stays_deleted_across_a_kill() -> Result<()> {
    let mut stage = Stage::counting(PAYER).await?;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(waiting(&stage, &large_task()).await?);
    }
    let words: Vec<&str> = ids.iter().map(String::as_str).collect();
    let ran = stage.cli().run(&[&["delete", "--force", "--yes"], &words[..]].concat()).await?;
    ran.expect(0)?;
    stage.kill_and_start().await?;
    ensure!(stage.cli().json(&["ls", "--all"]).await?.is_empty());
    until_swept(&stage).await
}

/// The worker is told to stop, what it says afterwards is settled, and it takes other work.
#[tokio::test]
async fn deleting_a_session_stops_its_running_tool_and_nothing_comes_back() -> Result<()> {
    let script = "[[step]]\ntool_calls = [{ name = \"look\", arguments = { what = \"sky\", \
        delay_ms = 80000 } }]\n[[step]]\ncontent = \"end\"";
    let mut stage = Stage::counting(script).await?;
    let pid = stage.worker()?.pid();
    let ledger = stage.ledger()?;
    for round in 1..=2 {
        let session_id = stage.api.create("Look.", &agent_with(&["look"], "")).await?;
        let begun = async || Ok((ledger.starts()?.len() == round).then_some(()));
        until("the tool's beginning", begun).await?;
        let words = ["delete", &session_id, "--force", "--yes"];
        stage.cli().run(&words).await?.expect(0)?;
        until("the tool's end", async || Ok(ledger.running(pid)?.is_empty().then_some(()))).await?;
        stage.cli().run(&["show", &session_id]).await?.expect(1)?;
    }
    ensure!(stage.cli().json(&["ls", "--all"]).await?.is_empty());
    until_swept(&stage).await
}

#[tokio::test]
async fn prune_shows_first_and_then_removes_what_is_old_and_over() -> Result<()> {
    let stage = Stage::counting(PAYER).await?;
    let cli = stage.cli();
    let ids = [completed(&stage, "Pay once.").await?, completed(&stage, "Pay twice.").await?];
    let open = waiting(&stage, "Pay.").await?;
    ensure!(cli.json(&["prune", "--older-than", "30d", "--dry-run"]).await?.is_empty());
    let young = cli.run(&["prune", "--older-than", "30d", "--yes"]).await?;
    young.expect(0)?;
    ensure!(young.stderr.contains("deleted 0 sessions"), "{}", young.stderr);
    let old = ["prune", "--older-than", "1ms"];
    let shown = cli.json(&[&old[..], &["--dry-run"]].concat()).await?;
    ensure!(shown.len() == 2 && shown.iter().all(|it| it["outcome"] == "would_delete"));
    let human = cli.run(&[&old[..], &["--dry-run", "--status", "completed"]].concat()).await?;
    human.expect(0)?;
    ensure!(human.stdout.contains("would delete") && human.stdout.contains(&ids[0]));
    ensure!(human.stderr.contains("would delete 2 sessions ("), "{}", human.stderr);
    for (filter, count) in [("--agent", "other"), ("--label", "team=a"), ("--status", "failed")]
        .map(|(name, value)| ([name, value], 0))
    {
        let shown = cli.json(&[&old[..], &["--dry-run"], &filter].concat()).await?;
        ensure!(shown.len() == count, "{filter:?}: {shown:?}");
    }
    ensure!(cli.json(&["ls", "--all"]).await?.len() == 3, "nothing went yet");
    cli.run(&old).await?.expect(2)?;
    let one = cli.json(&[&old[..], &["--yes", "--limit", "1"]].concat()).await?;
    ensure!(one.len() == 1 && one[0]["session_id"] == json!(ids[1]), "{one:?}");
    let rest = cli.run(&[&old[..], &["--yes"]].concat()).await?;
    rest.expect(0)?;
    ensure!(rest.stderr.contains("deleted 1 session ("), "{}", rest.stderr);
    let left = cli.json(&["ls", "--all"]).await?;
    ensure!(left.len() == 1 && left[0]["session_id"] == json!(open), "{left:?}");
    Ok(())
}

#[tokio::test]
async fn a_backup_of_a_running_server_is_a_store_to_start_from() -> Result<()> {
    let stage = Stage::counting(PAYER).await?;
    let cli = stage.cli();
    let done = completed(&stage, &large_task()).await?;
    let open = waiting(&stage, "Pay.").await?;
    let approval = stage.api.until_approval(&open).await?;
    let file = stage.root().join("b.db");
    let name = file.to_str().context("a path")?;
    let saved = cli.one(&["backup", name]).await?;
    ensure!(saved["bytes"].as_u64() == Some(std::fs::metadata(&file)?.len()), "{saved}");
    let again = cli.run(&["backup", name]).await?;
    again.expect(1)?;
    ensure!(again.stderr.contains("is there already"), "{}", again.stderr);
    cli.run(&["backup", name, "--force"]).await?.expect(0)?;
    cli.run(&["backup", "/nowhere/b.db"]).await?.expect(1)?;
    // What happens later is not in it.
    cli.run(&["delete", "--force", "--yes", &done, &open]).await?.expect(0)?;
    let events = {
        let data = stage.root().join("restored");
        std::fs::create_dir(&data)?;
        std::fs::rename(&file, data.join("stepwell.db"))?;
        let mut server = Server::new(stage.root(), Some(stage.model.url()))?
            .arguments(&["--no-worker"])
            .in_folder(&data);
        let api = server.start().await?;
        let found = api.until_approval(&open).await?;
        ensure!(found.approval_id == approval.approval_id, "{found:?}");
        let events = api.events(&done).await?;
        server.stop().await?;
        events
    };
    ensure!(events.last().is_some_and(|it| it.kind == "session_finished"), "{events:?}");
    ensure!(copies(&stage)? == 0, "a copy is left in the data folder");
    Ok(())
}

/// Copies in the data folder that have a name.
fn copies(stage: &Stage) -> Result<usize> {
    let names = std::fs::read_dir(stage.server.data())?
        .filter_map(|it| it.ok()?.file_name().into_string().ok());
    Ok(names.filter(|it| it.contains("backup")).count())
}

/// A megabyte that does not pack well.
fn noise(seed: u64) -> String {
    let next = |it: &u64| Some(it.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let numbers = std::iter::successors(Some(seed), next).take(60_000);
    numbers.fold(String::new(), |text, it| text + &format!("{it:016x} "))
}

/// A backup whose first piece came, of a store that is larger than what is on its way at most.
async fn begun(stage: &Stage) -> Result<tonic::Streaming<BackupResponse>> {
    let mut store = StoreServiceClient::new(stage.api.channel());
    let mut stream = store.backup(BackupRequest {}).await?.into_inner();
    loop {
        let message = stream.message().await?.context("the backup ended at once")?;
        if matches!(message.item, Some(Item::Data(_))) {
            return Ok(stream);
        }
    }
}

#[tokio::test]
async fn a_backup_that_is_killed_half_way_leaves_nothing_and_the_next_one_is_whole() -> Result<()> {
    let mut stage = Stage::counting(PAYER).await?;
    for number in 0..12 {
        waiting(&stage, &noise(number)).await?;
    }
    let root = stage.root().to_owned();
    let save = async |stage: &Stage, name: &str| {
        let file = root.join(name);
        let file = file.to_str().context("a path")?;
        stage.cli().run(&["backup", file]).await
    };

    // The client goes away: its turn goes to the next one.
    drop(begun(&stage).await?);
    until("a backup after one that broke off", async || {
        Ok((save(&stage, "after-the-client.db").await?.code == Some(0)).then_some(()))
    })
    .await?;

    // The server goes away in the middle.
    let mut stream = begun(&stage).await?;
    stage.kill_and_start().await?;
    while let Ok(Some(message)) = stream.message().await {
        ensure!(!matches!(message.item, Some(Item::End(_))), "it had come as a whole");
    }
    ensure!(copies(&stage)? == 0, "a copy is left in the data folder");
    save(&stage, "after-the-server.db").await?.expect(0)?;
    ensure!(stage.cli().json(&["ls", "--all"]).await?.len() == 12);
    let parts = std::fs::read_dir(stage.root())?.filter(|it| {
        it.as_ref().is_ok_and(|it| it.path().extension().is_some_and(|it| it == "part"))
    });
    ensure!(parts.count() == 0, "a part is left beside the backup");
    Ok(())
}

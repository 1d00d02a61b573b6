//! What goes wrong: what is said, where, what to do, and that nothing is lost or made.

use std::process::Stdio;

use anyhow::{Result, ensure};
use rusqlite::Connection;
use stepwell_proto::v1::SessionStatus;
use stepwell_tests::{Cli, Ran, Server, Stage, agent_with, free_address};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::LOOKER;

/// An error: exit code, nothing on stdout, these words on stderr.
fn expect(ran: &Ran, code: i32, words: &[&str]) -> Result<()> {
    ran.expect(code)?;
    ensure!(ran.stdout.is_empty(), "stdout is {:?}", ran.stdout);
    for word in words {
        ensure!(ran.stderr.contains(word), "{word:?} is not in {:?}", ran.stderr);
    }
    Ok(())
}

#[tokio::test]
async fn another_server_is_called_no_stepwell_server() -> Result<()> {
    let home = tempfile::tempdir()?;
    // What could become an exported file is sent; what cannot is refused before that.
    let begun = home.path().join("begun.stepwell");
    std::fs::write(&begun, r#"{"line":"header","#)?;
    let begun = begun.to_string_lossy();
    let mut strangers = tokio::task::JoinSet::new();
    for greeting in ["HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "SSH-2.0-x\r\n"] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let server = format!("http://{}", listener.local_addr()?);
        strangers.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut heard = [0; 64];
                // Whoever hangs up hears nothing.
                let _ = stream.read(&mut heard).await;
                let _ = stream.write_all(greeting.as_bytes()).await;
            }
        });
        let cli = Cli::new(&server, home.path());
        for words in [["show", "01AB"].as_slice(), &["ls"], &["import", &begun]] {
            expect(&cli.run(words).await?, 1, &[&server, "it is no Stepwell server"])?;
        }
        let endless = cli.run(&["import", "/dev/zero"]).await?;
        expect(&endless, 1, &["/dev/zero", "nothing was imported", "no exported session"])?;
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_with_what_to_do_and_nothing_is_made() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = free_address()?.to_string();
    let cli = Cli::new(&format!("http://{server}"), home.path());
    for words in [
        &["ls"][..],
        &["show", "01AB"],
        &["events", "01AB"],
        &["tail", "01AB"],
        &["tree", "01AB"],
        &["export", "01AB", "--otlp", "-"],
        &["approvals"],
        &["approve", "01AB.3", "--yes"],
        &["deny", "01AB.3"],
        &["resolve", "01AB.3", "failed"],
        &["send", "01AB", "hello"],
        &["cancel", "01AB"],
        &["pause", "01AB"],
        &["resume", "01AB"],
        &["agents"],
        &["tools"],
        &["workers"],
        &["submit", "--agent", "tester", "x"],
    ] {
        for json in [&[][..], &["--json"]] {
            let ran = cli.run(&[words, json].concat()).await?;
            expect(&ran, 1, &[&server, "connection refused", "stepwell serve"])?;
        }
    }
    ensure!(std::fs::read_dir(home.path())?.count() == 0, "something was made");
    Ok(())
}

#[tokio::test]
async fn unknown_and_ambiguous_ids_are_told_from_each_other() -> Result<()> {
    let mut stage = Stage::counting(LOOKER).await?;
    let agent = agent_with(&["look"], "");
    let mut ids = Vec::new();
    for task in ["one", "two"] {
        let session_id = stage.api.create(task, &agent).await?;
        stage.api.until_status(&session_id, SessionStatus::Completed).await?;
        ids.push(session_id);
    }
    stage.server.stop().await?;
    // Two ids that begin alike would take half a million sessions to come by chance.
    let alike = ["7ABCDEFGHJKMNPQRSTVWXYZ001", "7ABCDEFGHJKMNPQRSTVWXYZ002"];
    let store = Connection::open(stage.server.data().join("stepwell.db"))?;
    for (id, new) in ids.iter().zip(alike) {
        let sql = "UPDATE sessions SET session_id = ?2 WHERE session_id = ?1";
        ensure!(store.execute(sql, [id, new])? == 1);
    }
    drop(store);
    stage.api = stage.server.start().await?;
    let cli = stage.cli();
    for command in
        ["show", "events", "tail", "tree", "export", "cancel", "pause", "resume", "approve", "deny"]
    {
        let ran = cli.run(&[command, "7ABCDE"]).await?;
        expect(&ran, 1, &[alike[0], alike[1], "more characters"])?;
        let ran = cli.run(&[command, "01ZZZZZZ"]).await?;
        expect(&ran, 1, &["01ZZZZZZ"])?;
    }
    expect(&cli.run(&["show", "7AB"]).await?, 1, &["too short"])?;
    expect(&cli.run(&["show", "not-an-id"]).await?, 1, &["not-an-id", "no session id"])?;
    expect(&cli.run(&["show", ""]).await?, 1, &["empty"])?;
    cli.one(&["show", alike[0]]).await?;
    Ok(())
}

#[tokio::test]
async fn a_typo_in_an_agent_file_is_shown_with_line_and_column_and_what_is_meant() -> Result<()> {
    let stage = Stage::counting(LOOKER).await?;
    let cli = stage.cli();
    for (text, place, words) in [
        ("name = \"x\"\ninstructions = \"do\"\ntools = [\"lok\"]", ":3:10", "did you mean `look`"),
        ("name = \"x\"\ninstructions = \"do\"\ntool = [\"look\"]", ":3:", "tool"),
        ("name = \"x\"\ninstruction = \"do\"", ":2:1", "instructions"),
        ("name = \"x\"\ninstructions = \"do\"\n[limits]\nsteps = \"many\"", ":4:9", "steps"),
        ("name = \"x\ninstructions = \"do\"", ":1:", "TOML"),
    ] {
        let file = stage.write("typo.toml", text)?;
        for words_of in [
            &["submit", "--agent", &file, "x"][..],
            &["agents", "put", &file],
            &["agents", "check", &file],
        ] {
            let ran = cli.run(words_of).await?;
            expect(&ran, 1, &[&format!("typo.toml{place}"), words])?;
        }
    }
    ensure!(cli.json(&["ls"]).await?.is_empty() && cli.json(&["agents"]).await?.is_empty());
    let ran = cli.run(&["submit", "--agent", "nowhere.toml", "x"]).await?;
    expect(&ran, 1, &["nowhere.toml"])
}

#[tokio::test]
async fn a_command_line_that_makes_no_sense_exits_with_2() -> Result<()> {
    let home = tempfile::tempdir()?;
    let cli = Cli::new("http://127.0.0.1:1", home.path());
    for (words, meant) in [
        (&["frobnicate"][..], "frobnicate"),
        (&["aprovals"], "approvals"),
        (&["show"], "ID"),
        (&["ls", "--status", "waiting"], "waiting_approval"),
        (&["serve", "--listen", "7171"], "127.0.0.1:7171"),
        (&["resolve", "01AB.3", "happened"], "--output"),
        (&["approve", "01AB.3", "--arguments", "[]"], "JSON object"),
        (&["submit", "--wait=never", "x"], "person"),
    ] {
        let ran = cli.run(words).await?;
        expect(&ran, 2, &[meant])?;
    }
    Ok(())
}

#[tokio::test]
async fn a_port_in_use_is_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let taken = listener.local_addr()?;
    let refused = Server::new(folder.path(), None)?.on(taken).start_refused().await?;
    ensure!(refused.code == Some(1), "{refused:?}");
    for words in [taken.to_string().as_str(), "in use", "--listen"] {
        ensure!(refused.text.contains(words), "{words}: {}", refused.text);
    }
    Ok(())
}

#[tokio::test]
async fn a_second_server_on_one_data_folder_is_refused_and_the_first_goes_on() -> Result<()> {
    let stage = Stage::counting(LOOKER).await?;
    let second = Server::new(stage.root(), None)?.in_folder(stage.server.data());
    let refused = second.start_refused().await?;
    ensure!(refused.code == Some(1), "{refused:?}");
    let pid = format!("process {}", stage.server.pid()?);
    let folder = stage.server.data().display().to_string();
    for words in ["in use", pid.as_str(), folder.as_str()] {
        ensure!(refused.text.contains(words), "{words}: {}", refused.text);
    }
    let session_id = stage.api.create("Look.", &agent_with(&["look"], "")).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    Ok(())
}

#[tokio::test]
async fn a_data_folder_of_a_newer_release_is_refused_and_left_as_it_is() -> Result<()> {
    let mut stage = Stage::counting(LOOKER).await?;
    let session_id = stage.api.create("Look.", &agent_with(&["look"], "")).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    stage.server.stop().await?;
    let file = stage.server.data().join("stepwell.db");
    let known: i64 = {
        let store = Connection::open(&file)?;
        let known = store.pragma_query_value(None, "user_version", |row| row.get(0))?;
        store.pragma_update(None, "user_version", 999)?;
        known
    };
    let before = std::fs::read(&file)?;
    let refused = stage.server.start_refused().await?;
    ensure!(refused.code == Some(1), "{refused:?}");
    for words in ["schema 999", "a later one", "nothing was changed"] {
        ensure!(refused.text.contains(words), "{words}: {}", refused.text);
    }
    ensure!(std::fs::read(&file)? == before, "the store was changed");
    Connection::open(&file)?.pragma_update(None, "user_version", known)?;
    stage.api = stage.server.start().await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    Ok(())
}

#[tokio::test]
async fn what_is_too_large_or_no_text_is_refused_and_nothing_is_stored() -> Result<()> {
    let stage = Stage::counting(LOOKER).await?;
    let agent = stage.write("agent.toml", &agent_with(&["look"], ""))?;
    let cli = stage.cli();
    let submit = ["submit", "--agent", &agent, "-"];
    let above_text = vec![b'x'; 4 * 1024 * 1024 + 1];
    expect(&cli.run_with(&submit, &above_text).await?, 1, &["task", "4194304"])?;
    let above_message = vec![b'x'; 9 * 1024 * 1024];
    expect(&cli.run_with(&submit, &above_message).await?, 1, &["too large"])?;
    let above_input = vec![b'x'; 65 * 1024 * 1024];
    expect(&cli.run_with(&submit, &above_input).await?, 1, &[])?;
    expect(&cli.run_with(&submit, b"caf\xe9 \xff\xfe").await?, 1, &["UTF-8"])?;
    expect(&cli.run_with(&submit, b" \n\t").await?, 1, &["empty"])?;
    ensure!(cli.json(&["ls"]).await?.is_empty(), "something was stored");
    // The largest that is allowed is taken, and comes back whole.
    let most = "ü".repeat(2 * 1024 * 1024);
    let ran = cli.run_with(&["submit", "--agent", &agent, "--json", "-"], most.as_bytes()).await?;
    ran.expect(0)?;
    let session_id = super::text(&ran.lines()?[0], "session_id").to_owned();
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    let whole = cli.json(&["events", &session_id, "--whole"]).await?;
    ensure!(whole[0]["body"]["task"] == serde_json::json!(most), "the task came back changed");
    let other = cli.run_with(&["send", &session_id, "-"], b"\xff").await?;
    expect(&other, 1, &["UTF-8"])
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_error() -> Result<()> {
    let script = "[[step]]\nrepeat = 30\ntool_calls = [{ name = \"look\", arguments = { what = \
        \"x{{step}}\", bytes = 15000 } }]\n[[step]]\ncontent = \"end\"";
    let stage = Stage::counting(script).await?;
    let session_id = stage.api.create("Say much.", &agent_with(&["look"], "")).await?;
    stage.api.until_status(&session_id, SessionStatus::Completed).await?;
    for words in [
        &["events", session_id.as_str()][..],
        &["tail", "--json", "-n", "500", session_id.as_str()],
        &["tail", "--json", "-f", "-n", "500", session_id.as_str()],
    ] {
        let mut child = stage.cli().command(words)?.stdout(Stdio::piped()).spawn()?;
        let mut stdout = child.stdout.take().unwrap();
        let mut first = [0; 100];
        stdout.read_exact(&mut first).await?;
        drop(stdout);
        let output = child.wait_with_output().await?;
        ensure!(
            output.status.code() == Some(0) && output.stderr.is_empty(),
            "{words:?}: {output:?}"
        );
    }
    Ok(())
}

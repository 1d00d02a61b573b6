//! Files that are not what was exported.

use anyhow::{Context as _, Result, ensure};
use stepwell_archive::{Form, Limits, Reader, Writer};
use stepwell_tests::{Server, look, stepwell};

use super::{Desk, completed, export, names, verdict};

#[tokio::test]
async fn damage_is_refused_with_its_place_and_leaves_nothing() -> Result<()> {
    let (stage, session_id) = completed().await?;
    let desk = Desk::new(&stage).await?;
    let cli = desk.cli();
    let packed = std::fs::read(export(&stage, &session_id, &[]).await?)?;
    let plain = std::fs::read_to_string(export(&stage, &session_id, &["--fixture"]).await?)?;
    let lines: Vec<&str> = plain.lines().collect();
    let without = |gone: usize| {
        let mut kept = lines.clone();
        kept.remove(gone);
        format!("{}\n", kept.join("\n")).into_bytes()
    };
    let mut swapped = lines.clone();
    swapped.swap(4, 5);
    let mut flipped = packed.clone();
    flipped[packed.len() / 2] ^= 0x10;
    let before = names(desk.server.data())?;
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("cut", packed[..packed.len() - 60].to_vec(), "the compressed file ends too early"),
        ("the tail gone", packed[..packed.len() - 40].to_vec(), "all its events can be read"),
        ("flipped", flipped, "line"),
        ("an event gone", without(4), "is missing"),
        ("the payload gone", without(1), "payload"),
        ("swapped", format!("{}\n", swapped.join("\n")).into_bytes(), "is missing"),
        ("changed", plain.replace("engine", "ENGINE").into_bytes(), "the event was changed"),
        ("newer", plain.replace("\"version\":1", "\"version\":9").into_bytes(), "version 9"),
        ("more", [packed.as_slice(), b"more"].concat(), "line"),
        ("foreign", b"PK\x03\x04".to_vec(), "this is no exported session"),
        ("empty", Vec::new(), "it is empty"),
    ];
    for (name, bytes, words) in cases {
        let path = stage.root().join(name);
        std::fs::write(&path, bytes)?;
        let path = path.to_string_lossy().into_owned();
        let ran = cli.run(&["import", &path]).await?;
        ran.expect(1)?;
        ensure!(ran.stdout.is_empty() && ran.stderr.contains(words), "{name}: {}", ran.stderr);
        ensure!(ran.stderr.contains("nothing was imported"), "{name}: {}", ran.stderr);
        ensure!(verdict(&cli, &[&path], 1).await? == "damaged", "{name}");
    }
    ensure!(cli.json(&["ls"]).await?.is_empty());
    ensure!(look(desk.server.data())?.events()? == 0, "events are left in the store");
    ensure!(names(desk.server.data())? == before, "files are left in the data folder");
    Ok(())
}

/// Whole, chained and sealed, but the session begins twice.
fn begins_twice(file: &[u8]) -> Result<Vec<u8>> {
    let mut reader = Reader::open(file, Limits::default())?;
    let mut header = reader.header().clone();
    header.events = None;
    let mut writer = Writer::new(Vec::new(), Form::Packed, &header)?;
    let first = reader.next_item()?.context("no first event")?;
    let mut again = first.stored.clone();
    again.seq = again.seq.next();
    writer.event(&first.stored, &first.blobs, &[])?;
    writer.event(&again, &first.blobs, &[])?;
    Ok(writer.finish(None)?.0)
}

#[tokio::test]
async fn a_history_that_no_release_writes_is_refused() -> Result<()> {
    let (stage, session_id) = completed().await?;
    let desk = Desk::new(&stage).await?;
    let file = begins_twice(&std::fs::read(export(&stage, &session_id, &[]).await?)?)?;
    let ran = desk.cli().run_with(&["import", "-"], &file).await?;
    ran.expect(1)?;
    ensure!(ran.stderr.contains("line 5 (event 2): event 2 (session_created) is illegal"));
    ensure!(desk.cli().json(&["ls"]).await?.is_empty());
    ensure!(look(desk.server.data())?.events()? == 0, "events are left in the store");
    let ran = stage.cli().run(&["verify", "/nowhere"]).await?;
    ran.expect(1)?;
    ensure!(ran.stderr.contains("cannot open /nowhere"), "{}", ran.stderr);
    Ok(())
}

#[tokio::test]
async fn a_file_over_the_limit_is_refused() -> Result<()> {
    let (stage, session_id) = completed().await?;
    let file = export(&stage, &session_id, &[]).await?;
    let root = stage.root().join("small");
    std::fs::create_dir_all(&root)?;
    for (bytes, words) in [("100", "more than 100 bytes"), ("5000", "more than 5000 bytes")] {
        let mut server =
            Server::new(&root, None)?.arguments(&["--no-worker", "--import-bytes", bytes]);
        server.start().await?;
        let cli = stepwell_tests::Cli::new(&server.url(), &root);
        let ran = cli.run(&["import", &file]).await?;
        ran.expect(1)?;
        ensure!(ran.stderr.contains(words), "{}", ran.stderr);
        server.stop().await?;
    }
    Ok(())
}

/// A shell hands a file on as an open handle: `verify <(zstd -dc FILE)`.
#[tokio::test]
async fn a_file_may_be_an_open_handle() -> Result<()> {
    let (stage, session_id) = completed().await?;
    let file = export(&stage, &session_id, &[]).await?;
    let (program, script) = (stepwell()?, "exec \"$0\" \"$@\" /dev/fd/9 9< \"$FILE\"");
    for words in [&["verify"][..], &["show", "--json"]] {
        let mut shell = tokio::process::Command::new("sh");
        shell.args(["-c", script]).arg(&program).args(words).env("FILE", &file);
        let ran = shell.output().await?;
        let told = String::from_utf8_lossy(&ran.stdout).into_owned();
        ensure!(ran.status.success(), "{words:?}: {ran:?}");
        ensure!(told.contains("intact") || told.contains(&session_id), "{words:?}: {told}");
    }
    Ok(())
}

//! `import`: exported sessions into the server.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde::Serialize;
use stepwell_archive::check_front;
use stepwell_proto::v1::{ImportSessionRequest, ImportSessionResponse};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{Context, expected, with_progress};
use crate::args::ImportArgs;
use crate::client::Client;
use crate::exit::Exit;
use crate::out::in_words;
use crate::progress::Spinner;
use crate::view;

/// Bytes of one piece.
const PIECE_BYTES: usize = 256 * 1024;

/// Pieces that wait for the connection.
const PIECES_WAITING: usize = 4;

/// How long the server may take to check a file: it answers when all of it is stored.
const PATIENCE: Duration = Duration::from_secs(2 * 60 * 60);

#[derive(Serialize)]
struct Imported<'a> {
    file: String,
    session: view::json::Session<'a>,
    created: bool,
    events: u64,
    head_hash: &'a str,
    held: bool,
}

pub(super) async fn run(context: &Context, args: ImportArgs) -> anyhow::Result<Exit> {
    let client = Client::connect_for(&context.server, PATIENCE).await?;
    let count = args.files.len();
    let mut failures = 0;
    for path in &args.files {
        let shown = path.display().to_string();
        let done = import(context, &client, path).await;
        match done {
            Ok(response) => show(context, &shown, &response)?,
            Err(error) if count == 1 => return Err(error.context(shown)),
            Err(error) => {
                failures += 1;
                let text = format!("{shown}: {}", in_words(&error));
                let care = view::visible::Care::Prose;
                context.out.remark(&view::visible::block(&text, care, context.out.paint_err));
            }
        }
    }
    if failures > 0 {
        bail!("{failures} of {count} files were not imported");
    }
    Ok(Exit::Ok)
}

async fn import(
    context: &Context,
    client: &Client,
    path: &Path,
) -> anyhow::Result<ImportSessionResponse> {
    let name = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    if path == Path::new("-") {
        return send(context, client, tokio::io::stdin(), "stdin".to_owned()).await;
    }
    let file = tokio::fs::File::open(path).await.context("it cannot be opened")?;
    send(context, client, file, name).await
}

/// The next bytes; none at the end.
async fn piece(file: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Vec<u8>> {
    let mut data = Vec::with_capacity(PIECE_BYTES);
    file.take(PIECE_BYTES as u64).read_to_end(&mut data).await?;
    Ok(data)
}

async fn send(
    context: &Context,
    client: &Client,
    mut file: impl AsyncRead + Unpin,
    name: String,
) -> anyhow::Result<ImportSessionResponse> {
    let first = piece(&mut file).await.context("it cannot be read")?;
    // What is no export at all is not sent; some inputs never end.
    check_front(&first).map_err(|error| anyhow!("nothing was imported: {error}"))?;
    let (pieces, stream) = mpsc::channel(PIECES_WAITING);
    let words = format!("importing {name}");
    let reading = async move {
        let (mut name, mut data) = (name, first);
        while !data.is_empty() {
            let piece = ImportSessionRequest { name: std::mem::take(&mut name), data: data.into() };
            // A server that takes no more has answered already.
            if pieces.send(piece).await.is_err() {
                break;
            }
            data = self::piece(&mut file).await?;
        }
        Ok::<(), std::io::Error>(())
    };
    let mut sessions = client.sessions();
    let sending = sessions.import_session(ReceiverStream::new(stream));
    let mut spinner = Spinner::new(context.out);
    let both = async { tokio::join!(reading, sending) };
    let (read, response) = with_progress(&mut spinner, &words, both).await;
    read.context("it cannot be read")?;
    match response {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => Err(client.refusal_of_whom(&status).await.into()),
    }
}

fn show(context: &Context, file: &str, response: &ImportSessionResponse) -> anyhow::Result<()> {
    let session = expected(response.session.as_ref(), "session")?;
    let ImportSessionResponse { created, events, head_hash, held, .. } = response;
    if context.out.is_json {
        let session = view::json::Session::from(session);
        let (file, created, events, held) = (file.to_owned(), *created, *events, *held);
        return context.out.json(&Imported { file, session, created, events, head_hash, held });
    }
    context.out.line(&view::session::line(session, context.out.paint))?;
    let id = &session.session_id;
    if !created {
        context.out.faint_remark("was here already, with the same history");
    } else if *held {
        context.out.faint_remark(&format!("is held; to let it go on here: stepwell resume {id}"));
    }
    Ok(())
}

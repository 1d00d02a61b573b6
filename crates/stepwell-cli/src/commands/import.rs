//! `import`: exported sessions into the server.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde::Serialize;
use stepwell_archive::check_front;
use stepwell_proto::v1::{ImportSessionRequest, ImportSessionResponse, ModelAddress};
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
    models: Vec<AskedModel<'a>>,
}

/// A model that a held session asks when it goes on.
#[derive(Serialize)]
struct AskedModel<'a> {
    name: &'a str,
    base_url: &'a str,
    api_key_env: &'a str,
}

pub(super) async fn run(context: &Context, args: ImportArgs) -> anyhow::Result<Exit> {
    let client = Client::connect_for(&context.server, PATIENCE).await?;
    let count = args.files.len();
    let mut failures = 0;
    for path in &args.files {
        let shown = path.display().to_string();
        let done = import(context, &client, path, args.trust_keys).await;
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
    trust_keys: bool,
) -> anyhow::Result<ImportSessionResponse> {
    let name = path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    if path == Path::new("-") {
        return send(context, client, tokio::io::stdin(), "stdin".to_owned(), trust_keys).await;
    }
    let file = tokio::fs::File::open(path).await.context("it cannot be opened")?;
    send(context, client, file, name, trust_keys).await
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
    trust_keys: bool,
) -> anyhow::Result<ImportSessionResponse> {
    let first = piece(&mut file).await.context("it cannot be read")?;
    // What is no export at all is not sent; some inputs never end.
    check_front(&first).map_err(|error| anyhow!("nothing was imported: {error}"))?;
    let (pieces, stream) = mpsc::channel(PIECES_WAITING);
    let words = format!("importing {name}");
    let reading = async move {
        let (mut name, mut data) = (name, first);
        while !data.is_empty() {
            let name = std::mem::take(&mut name);
            let piece = ImportSessionRequest { name, data: data.into(), trust_keys };
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
    let ImportSessionResponse { created, events, head_hash, held, models, .. } = response;
    if context.out.is_json {
        let session = view::json::Session::from(session);
        let (file, created, events, held) = (file.to_owned(), *created, *events, *held);
        let models = models.iter().map(|it| AskedModel {
            name: &it.name,
            base_url: &it.base_url,
            api_key_env: &it.api_key_env,
        });
        let models = models.collect();
        let imported = Imported { file, session, created, events, head_hash, held, models };
        return context.out.json(&imported);
    }
    context.out.line(&view::session::line(session, context.out.paint))?;
    let id = &session.session_id;
    if !created {
        context.out.faint_remark("was here already, with the same history");
    } else if *held {
        context.out.faint_remark(&format!("is held; to let it go on here: stepwell resume {id}"));
        for model in models {
            context.out.faint_remark(&format!("then it asks {}", asked(model)));
        }
    }
    Ok(())
}

/// Who is asked, and what it is sent beside the request.
fn asked(model: &ModelAddress) -> String {
    let brief = view::visible::brief;
    let ModelAddress { name, base_url, api_key_env } = model;
    let asked = format!("{} at {}", brief(name), brief(base_url));
    if api_key_env.is_empty() {
        return asked;
    }
    format!("{asked}, with the key in the server's {}", brief(api_key_env))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_and_the_key_are_told() {
        let model = |key: &str| ModelAddress {
            name: "qwen3".into(),
            base_url: "http://gpu:8000/v1".into(),
            api_key_env: key.into(),
        };
        assert_eq!(asked(&model("")), "qwen3 at http://gpu:8000/v1");
        let told = asked(&model("KEY"));
        assert_eq!(told, "qwen3 at http://gpu:8000/v1, with the key in the server's KEY");
    }
}

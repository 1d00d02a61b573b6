//! `mock-model`: plays a script over the OpenAI API until Ctrl-C.

use std::io;
use std::net::SocketAddr;

use anyhow::bail;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Context, read_file};
use crate::args::MockModelArgs;
use crate::exit::Exit;
use crate::mock_model::{Script, serve};
use crate::serve::Signals;
use crate::view;

/// `mock-model`.
pub(super) async fn run(context: &Context, args: &MockModelArgs) -> anyhow::Result<Exit> {
    let text = read_file(&args.script)?;
    let script = Script::parse(&text).map_err(|error| {
        let file = args.script.display().to_string();
        let paint = context.out.paint_err;
        anyhow::Error::msg(view::source::annotate(&file, &text, &error.to_string(), paint))
    })?;
    let listener = listen(args.listen).await?;
    let mut signals = Signals::new()?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    if context.out.is_json {
        #[derive(serde::Serialize)]
        struct Serving<'a> {
            url: &'a str,
        }
        context.out.json(&Serving { url: &url })?;
    } else {
        context.out.line(&format!("a scripted model, not a real one, answers at {url}"))?;
    }
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let serving = serve(listener, script, shutdown);
    tokio::pin!(serving);
    tokio::select! {
        done = &mut serving => return done.map(|()| Exit::Ok),
        () = signals.wait() => {}
    }
    stop.cancel();
    serving.await.map(|()| Exit::Ok)
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => bail!(
            "{address} is in use by another program: stop it, or choose another address with --listen"
        ),
        Err(error) => bail!("cannot listen on {address}: {error}"),
    }
}

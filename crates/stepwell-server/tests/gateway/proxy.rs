//! A way to the server that can break, or fall silent.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Flows,
    /// Nothing passes, nothing closes.
    Silent,
}

pub(crate) struct Proxy {
    pub(crate) url: String,
    mode: watch::Sender<Mode>,
    /// A number that grows ends the connections that were there before.
    generation: watch::Sender<u64>,
    _listening: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mode = watch::Sender::new(Mode::Flows);
        let generation = watch::Sender::new(0);
        let (modes, generations) = (mode.subscribe(), generation.subscribe());
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                // A server that is away closes the client's connection, as without a proxy.
                if let Ok(upstream) = TcpStream::connect(server).await {
                    let (modes, generations) = (modes.clone(), generations.clone());
                    connections.spawn(pass(client, upstream, modes, generations));
                }
            }
        });
        Self { url, mode, generation, _listening: listening }
    }

    /// All connections break; new ones are taken.
    pub(crate) fn cut(&self) {
        self.generation.send_modify(|it| *it += 1);
    }

    /// From now on nothing passes, as if the cable were out.
    pub(crate) fn silence(&self) {
        self.mode.send_replace(Mode::Silent);
    }
}

async fn pass(
    mut client: TcpStream,
    mut upstream: TcpStream,
    mut modes: watch::Receiver<Mode>,
    mut generations: watch::Receiver<u64>,
) {
    generations.borrow_and_update();
    let copy = tokio::io::copy_bidirectional(&mut client, &mut upstream);
    tokio::pin!(copy);
    loop {
        let flows = *modes.borrow_and_update() == Mode::Flows;
        tokio::select! {
            _ = &mut copy, if flows => return,
            Ok(()) = modes.changed() => {}
            // The proxy or this generation is gone.
            _ = generations.changed() => return,
        }
    }
}

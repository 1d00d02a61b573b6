//! `anchor`: count and hash of each session, to be kept where nobody can change it.

use std::collections::HashSet;
use std::io::Write as _;

use serde::{Deserialize, Serialize};
use stepwell_core::SessionId;
use stepwell_proto::v1::{ListSessionsRequest, Session};

use super::lists::Pages;
use super::stored::{self, id_of};
use super::target::{Target, reader_gone};
use super::{Context, expected, get_session};
use crate::args::AnchorArgs;
use crate::client::Client;
use crate::exit::Exit;
use crate::out::Out;
use crate::progress::Spinner;
use crate::view;

/// What was known of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Anchor {
    /// The session.
    pub(super) session_id: SessionId,
    /// How many events it had.
    pub(super) events: u64,
    /// Hash of the last of them.
    pub(super) head_hash: String,
}

pub(super) async fn run(context: &Context, args: AnchorArgs) -> anyhow::Result<Exit> {
    let client = context.client().await?;
    let mut anchors = Anchors {
        client: &client,
        target: Target::open(&args.output, true, args.force)?,
        spinner: Spinner::new(context.out),
        seen: HashSet::new(),
        out: context.out,
        is_whole: true,
    };
    let writing = async {
        if args.ids.is_empty() {
            anchors.write_all().await?;
        }
        for id in &args.ids {
            let response = get_session(&client, id).await?;
            anchors.write(expected(response.session.as_ref(), "session")?).await?;
        }
        let Anchors { target, mut spinner, is_whole, .. } = anchors;
        spinner.hide();
        target.finish().map_err(reader_gone)?;
        anyhow::Ok(if is_whole { Exit::Ok } else { Exit::Error })
    };
    tokio::select! {
        written = writing => written,
        _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
    }
}

struct Anchors<'a> {
    client: &'a Client,
    target: Target,
    spinner: Spinner,
    /// A session that moves while pages are read may be listed twice.
    seen: HashSet<SessionId>,
    out: Out,
    /// No session had to be left out.
    is_whole: bool,
}

impl Anchors<'_> {
    async fn write_all(&mut self) -> anyhow::Result<()> {
        let mut pages = Pages::new(self.client, ListSessionsRequest::default(), u32::MAX);
        while let Some(page) = pages.next().await? {
            for session in &page {
                self.write(session).await?;
            }
        }
        Ok(())
    }

    async fn write(&mut self, session: &Session) -> anyhow::Result<()> {
        let session_id = id_of(session)?;
        if !self.seen.insert(session_id) {
            return Ok(());
        }
        let events = session.head_seq;
        // The hash is that of the events; whether payloads are whole is asked by verify and doctor.
        let head_hash = match stored::read(self.client, None, session_id, events).await {
            Ok(read) => read.head_hash,
            Err(error) => match stored::damage(&error) {
                Some(damage) => {
                    self.spinner.hide();
                    self.out.remark(&format!("left out: {damage}"));
                    self.is_whole = false;
                    return Ok(());
                }
                None => return Err(error),
            },
        };
        let line = view::json::to_line(&Anchor { session_id, events, head_hash })?;
        writeln!(self.target, "{line}").map_err(|error| reader_gone(error.into()))?;
        let count = self.seen.len();
        self.spinner.say(&view::when::counted(count, "session"));
        Ok(())
    }
}

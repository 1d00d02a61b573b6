//! `send`, `cancel`, `pause`, `resume`: what people say to a session.

use anyhow::bail;
use stepwell_proto::v1::{
    CancelSessionRequest, PauseSessionRequest, ResumeSessionRequest, SendMessageRequest,
};

use super::submit::random_key;
use super::{Context, actor, answer, answer_keyed, refuse_file, text_or_stdin};
use crate::args::{CancelArgs, PauseArgs, ResumeArgs, SendArgs};
use crate::exit::Exit;

/// `send`.
pub(super) async fn send(context: &Context, args: SendArgs) -> anyhow::Result<Exit> {
    refuse_file(&args.session.id)?;
    let said = text_or_stdin(&args.text, "the message")?;
    if said.trim().is_empty() {
        bail!("the message is empty: say something, or leave the session as it is");
    }
    let request = SendMessageRequest {
        session_id: args.session.id,
        content: said,
        answers_call_id: args.answers.unwrap_or_default(),
        client_key: match args.key {
            Some(key) => key,
            None => random_key()?,
        },
        sent_by: actor(&args.actor)?,
    };
    let client = context.client().await?;
    let response =
        answer_keyed(&client, async || client.sessions().send_message(request.clone()).await)
            .await?;
    context.acted(response.session.as_ref())
}

/// `cancel`.
pub(super) async fn cancel(context: &Context, args: CancelArgs) -> anyhow::Result<Exit> {
    refuse_file(&args.session.id)?;
    let request = CancelSessionRequest {
        session_id: args.session.id,
        reason: args.reason.unwrap_or_default(),
        requested_by: actor(&args.actor)?,
    };
    let client = context.client().await?;
    let response = answer(&client, client.sessions().cancel_session(request)).await?;
    context.acted(response.session.as_ref())
}

/// `pause`.
pub(super) async fn pause(context: &Context, args: PauseArgs) -> anyhow::Result<Exit> {
    refuse_file(&args.session.id)?;
    let request = PauseSessionRequest {
        session_id: args.session.id,
        reason: args.reason.unwrap_or_default(),
        requested_by: actor(&args.actor)?,
    };
    let client = context.client().await?;
    let response = answer(&client, client.sessions().pause_session(request)).await?;
    context.acted(response.session.as_ref())
}

/// `resume`.
pub(super) async fn resume(context: &Context, args: ResumeArgs) -> anyhow::Result<Exit> {
    refuse_file(&args.session.id)?;
    let request = ResumeSessionRequest {
        session_id: args.session.id,
        requested_by: actor(&args.actor)?,
        once: false,
    };
    let client = context.client().await?;
    let response = answer(&client, client.sessions().resume_session(request)).await?;
    context.acted(response.session.as_ref())
}

//! `delete`: named sessions are removed for good.

use stepwell_proto::v1::{DeleteSessionsRequest, DeletedSession};
use stepwell_server::DELETE_MAX;

use super::approvals::confirm;
use super::{Context, answer, is_attended};
use crate::args::DeleteArgs;
use crate::client::Client;
use crate::exit::{Exit, UsageError};
use crate::view::retention::{self, Sum, is_gone};

/// `delete`.
pub(super) async fn run(context: &Context, args: DeleteArgs) -> anyhow::Result<Exit> {
    let DeleteArgs { ids, force, yes } = args;
    expect_consent(yes, "delete")?;
    let client = context.client().await?;
    let request = DeleteSessionsRequest { force, ..DeleteSessionsRequest::default() };
    if !yes {
        let dry = DeleteSessionsRequest { dry_run: true, ..request.clone() };
        let mut sum = Sum::default();
        for session in delete_all(&client, &dry, &ids).await? {
            sum.add(&session);
            context.out.remark(&retention::line(&session, context.out.paint_err));
        }
        if sum.gone == 0 {
            return Ok(Exit::Error);
        }
        if !confirm(context, &format!("Delete {} for good?", sum.words()))? {
            context.out.remark("nothing was deleted");
            return Ok(Exit::Ok);
        }
    }
    let deleted = delete_all(&client, &request, &ids).await?;
    for session in &deleted {
        show(context, session)?;
    }
    Ok(if deleted.iter().all(is_gone) { Exit::Ok } else { Exit::Error })
}

/// Nothing is removed for good unless somebody said so.
pub(super) fn expect_consent(yes: bool, command: &str) -> anyhow::Result<()> {
    if yes || is_attended() {
        return Ok(());
    }
    let problem =
        format!("{command} removes sessions for good: add --yes, nobody can be asked here");
    Err(UsageError(problem).into())
}

async fn delete_all(
    client: &Client,
    request: &DeleteSessionsRequest,
    ids: &[String],
) -> anyhow::Result<Vec<DeletedSession>> {
    let mut deleted = Vec::with_capacity(ids.len());
    for ids in ids.chunks(DELETE_MAX) {
        let request = DeleteSessionsRequest { session_ids: ids.to_vec(), ..request.clone() };
        deleted.extend(answer(client, client.sessions().delete_sessions(request)).await?.sessions);
    }
    Ok(deleted)
}

/// One session on stdout.
pub(super) fn show(context: &Context, session: &DeletedSession) -> anyhow::Result<()> {
    if context.out.is_json {
        context.out.json(&retention::Deleted::from(session))
    } else {
        context.out.line(&retention::line(session, context.out.paint))
    }
}

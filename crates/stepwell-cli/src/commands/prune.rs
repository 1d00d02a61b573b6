//! `prune`: sessions that ended long ago are removed for good.
//!
//! The list says which may go, page by page; the server looks at each once more when it deletes it, so
//! what changes meanwhile is left alone.

use std::time::Duration;

use stepwell_proto::v1::{DeleteSessionsRequest, ListSessionsRequest};
use stepwell_server::DELETE_MAX;

use super::Context;
use super::approvals::confirm;
use super::delete::{expect_consent, show};
use super::lists::Pages;
use crate::args::PruneArgs;
use crate::args::parse::status_of;
use crate::client::Client;
use crate::exit::Exit;
use crate::progress::Spinner;
use crate::time;
use crate::view::retention::Sum;

/// `prune`.
pub(super) async fn run(context: &Context, args: PruneArgs) -> anyhow::Result<Exit> {
    if !args.dry_run {
        expect_consent(args.yes, "prune")?;
    }
    let client = context.client().await?;
    let pruning = Pruning { context, client: &client, wanted: Wanted::new(&args, time::now_ms()) };
    let out = context.out;
    if args.dry_run {
        let sum = pruning.pass(Pass::Show).await?;
        out.remark(&format!("would delete {}", sum.words()));
        return Ok(Exit::Ok);
    }
    if !args.yes {
        let sum = pruning.pass(Pass::Count).await?;
        if sum.gone == 0 {
            out.remark("no session is that old");
            return Ok(Exit::Ok);
        }
        if !confirm(context, &format!("Delete {} for good?", sum.words()))? {
            out.remark("nothing was deleted");
            return Ok(Exit::Ok);
        }
    }
    let sum = pruning.pass(Pass::Delete).await?;
    out.remark(&format!("deleted {}", sum.words()));
    if sum.kept > 0 {
        out.remark(&format!("{} changed meanwhile and stayed", sum.kept));
    }
    Ok(Exit::Ok)
}

/// What a pass over the sessions is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Counts what would go.
    Count,
    /// Shows what would go.
    Show,
    /// Deletes.
    Delete,
}

impl Pass {
    fn is_dry_run(self) -> bool {
        match self {
            Self::Count | Self::Show => true,
            Self::Delete => false,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Count | Self::Show => "found",
            Self::Delete => "deleted",
        }
    }
}

/// Which sessions may go.
struct Wanted {
    list: ListSessionsRequest,
    delete: DeleteSessionsRequest,
    limit: u32,
}

impl Wanted {
    fn new(args: &PruneArgs, now_ms: i64) -> Self {
        let statuses: Vec<i32> =
            args.statuses.iter().filter_map(|name| status_of(name)).map(i32::from).collect();
        let updated_before_ms = before(now_ms, args.older_than);
        Self {
            list: ListSessionsRequest {
                statuses: statuses.clone(),
                agent: args.agent.clone().unwrap_or_default(),
                labels: args.labels.iter().cloned().collect(),
                updated_before_ms,
                ..ListSessionsRequest::default()
            },
            delete: DeleteSessionsRequest {
                statuses,
                updated_before_ms,
                ..DeleteSessionsRequest::default()
            },
            limit: args.limit.unwrap_or(u32::MAX),
        }
    }
}

/// The time that long ago; never 0, which would mean any time.
fn before(now_ms: i64, age: Duration) -> i64 {
    now_ms.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)).max(1)
}

struct Pruning<'a> {
    context: &'a Context,
    client: &'a Client,
    wanted: Wanted,
}

impl Pruning<'_> {
    async fn pass(&self, pass: Pass) -> anyhow::Result<Sum> {
        let mut sum = Sum::default();
        let mut spinner = Spinner::new(self.context.out);
        let mut pages = Pages::new(self.client, self.wanted.list.clone(), self.wanted.limit);
        while let Some(page) = pages.next().await? {
            let ids: Vec<String> = page.into_iter().map(|it| it.session_id).collect();
            for ids in ids.chunks(DELETE_MAX) {
                self.delete(ids.to_vec(), pass, &mut spinner, &mut sum).await?;
                spinner.say(&format!("{} {}", pass.words(), sum.words()));
            }
        }
        Ok(sum)
    }

    async fn delete(
        &self,
        session_ids: Vec<String>,
        pass: Pass,
        spinner: &mut Spinner,
        sum: &mut Sum,
    ) -> anyhow::Result<()> {
        let dry_run = pass.is_dry_run();
        let request = DeleteSessionsRequest { session_ids, dry_run, ..self.wanted.delete.clone() };
        let response = self.client.sessions().delete_sessions(request).await;
        let response = response.map_err(|status| self.client.refusal(&status))?.into_inner();
        let is_shown = pass == Pass::Show || (pass == Pass::Delete && self.context.out.is_json);
        if is_shown {
            spinner.hide();
        }
        for session in response.sessions {
            sum.add(&session);
            if is_shown {
                show(self.context, &session)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_a_time_before_now_and_never_any_time() {
        assert_eq!(before(10_000, Duration::from_secs(4)), 6_000);
        assert_eq!(before(10_000, Duration::from_secs(40)), 1);
        assert_eq!(before(10_000, Duration::MAX), 1);
    }
}

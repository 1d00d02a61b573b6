//! What is damaged in the file of a store, and in the sessions that it holds.

use std::path::Path;

use stepwell_store_sqlite::{DamagedSession, OpenError, SessionsCheck, SqliteStore};
use tokio::sync::watch;

use super::super::{Context, SHOW_PROGRESS_AFTER};
use super::Finding;
use crate::progress::Spinner;
use crate::view::when::{counted, number};

/// Reads the whole store, which may take long; nothing to say when there is none yet.
pub(super) async fn look(context: &Context, folder: &Path) -> anyhow::Result<Vec<Finding>> {
    let (news, seen) = watch::channel("reading the file of the store".to_owned());
    let folder = folder.to_owned();
    let mut checking = tokio::task::spawn_blocking(move || {
        check(&folder, &mut |it| {
            let (sessions, events) = (counted(it.sessions, "session"), counted(it.events, "event"));
            let payloads = counted(it.payloads, "payload");
            news.send_replace(format!("{payloads} read, {sessions}, {events}"));
        })
    });
    let mut spinner = Spinner::new(context.out);
    loop {
        tokio::select! {
            findings = &mut checking => return Ok(findings?),
            () = tokio::time::sleep(SHOW_PROGRESS_AFTER) => spinner.say(&seen.borrow()),
        }
    }
}

/// The same, on this thread; `see` is told how far it is.
pub(super) fn check(folder: &Path, see: &mut dyn FnMut(&SessionsCheck)) -> Vec<Finding> {
    let file = match SqliteStore::find_damage(folder) {
        Ok(None) => Finding::ok("store", "undamaged, with the schema of this release"),
        Ok(Some(damage)) => Finding::fail(
            "store",
            format!("the file is damaged: {damage}"),
            keep_and_rescue(folder),
        ),
        Err(OpenError::NoStore { .. }) => return Vec::new(),
        Err(error) => return vec![unusable(&error)],
    };
    let mut findings = vec![file];
    match SqliteStore::check_sessions(folder, see) {
        Ok(check) => findings.extend(of_sessions(folder, &check)),
        Err(error) => findings.push(unusable(&error)),
    }
    findings
}

fn unusable(error: &OpenError) -> Finding {
    match error {
        OpenError::Older { .. } => Finding::warn("store", error.to_string(), "nothing by hand"),
        OpenError::Newer { .. } => {
            Finding::fail("store", error.to_string(), "install that release")
        }
        OpenError::NoStore { .. }
        | OpenError::InUse { .. }
        | OpenError::Emptied { .. }
        | OpenError::Foreign { .. }
        | OpenError::NetworkFileSystem { .. }
        | OpenError::NoFolder { .. }
        | OpenError::Folder { .. }
        | OpenError::Store(_) => {
            let next = "keep a copy of the folder as it is, then restore it from a backup, or \
                        choose another one with --data";
            Finding::fail("store", error.to_string(), next)
        }
    }
}

/// What loses nothing more. A backup of a damaged file is refused, so the file itself is copied.
fn keep_and_rescue(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "stop the server and copy the folder as it is (cp -a {folder} {folder}.damaged: \
         stepwell.db, with stepwell.db-wal where there is one); then start it, export what is whole \
         one by one (stepwell export ID), and restore a backup"
    )
}

fn of_sessions(folder: &Path, check: &SessionsCheck) -> Vec<Finding> {
    let SessionsCheck { sessions, events, payloads, damaged, named } = check;
    if *damaged == 0 {
        let (sessions, events) = (counted(*sessions, "session"), counted(*events, "event"));
        let message = format!("{sessions} whole, {events}, {}", counted(*payloads, "payload"));
        return vec![Finding::ok("history", message)];
    }
    let line = |it: &DamagedSession| {
        Finding::fail("history", format!("session {}: {}", it.session_id, it.reason), "")
    };
    let mut findings: Vec<Finding> = named.iter().map(line).collect();
    let count = counted(*damaged, "session");
    let message = format!("{count} of {} damaged", number(*sessions));
    let id = named.first().map_or("ID", |it| it.session_id.as_str());
    let next = format!(
        "what cannot be read of such a session cannot be exported, and the others are not touched \
         by it: bring back an earlier backup, or delete it (stepwell delete {id}). First {}",
        keep_and_rescue(folder)
    );
    findings.push(Finding::fail("history", message, next));
    findings
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::*;

    #[test]
    fn a_store_that_lost_everything_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(check(folder.path(), &mut |_| {}), [], "no store yet");
        std::fs::write(folder.path().join("stepwell.db"), "").unwrap();
        let findings = check(folder.path(), &mut |_| {});
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].status, Health::Fail);
        assert!(findings[0].message.contains("is empty (0 bytes)"), "{findings:?}");
    }

    #[test]
    fn damaged_sessions_are_named_and_counted_with_what_can_be_done() {
        let named =
            vec![DamagedSession { session_id: "01J".into(), reason: "event 5 is missing".into() }];
        let check =
            SessionsCheck { sessions: 300, events: 9_000, payloads: 70, damaged: 12, named };
        let findings = of_sessions(Path::new("/srv/data"), &check);
        assert_eq!(findings[0].message, "session 01J: event 5 is missing");
        let last = findings.last().unwrap();
        assert_eq!(last.message, "12 sessions of 300 damaged");
        assert!(last.next.contains("stepwell delete 01J"), "{last:?}");
        // A backup of a damaged store may be refused: the advice must not need one.
        assert!(last.next.contains("cp -a /srv/data /srv/data.damaged"), "{last:?}");
        assert!(!last.next.contains("stepwell backup"), "{last:?}");
        assert!(findings.iter().all(|it| it.status == Health::Fail));
        let whole = SessionsCheck { damaged: 0, named: Vec::new(), ..check };
        let findings = of_sessions(Path::new("/srv/data"), &whole);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].message, "300 sessions whole, 9,000 events, 70 payloads");
    }
}

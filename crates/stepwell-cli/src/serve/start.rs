//! What is said when the store cannot be had at the start. A server that runs waits until the disk
//! takes its writes again; one that does not run goes on with nothing by itself.

use stepwell_ports::StoreError;
use stepwell_store_sqlite::OpenError;

/// The store could not be opened.
pub(super) fn not_opened(error: OpenError) -> anyhow::Error {
    match error {
        OpenError::Store(error) => not_started(error),
        OpenError::Folder { .. } => anyhow::anyhow!(
            "{error}, so the server does not start: see to its rights and to free space, then start \
             it again, or choose another folder with --data"
        ),
        OpenError::NoStore { .. }
        | OpenError::InUse { .. }
        | OpenError::Newer { .. }
        | OpenError::Older { .. }
        | OpenError::Foreign { .. }
        | OpenError::NetworkFileSystem { .. } => error.into(),
    }
}

/// The store could not be written or read before the server was there.
pub(super) fn not_started(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::DiskFull { place } => anyhow::anyhow!(
            "the disk that holds {place} is full, so the server does not start: free some space, \
             then start it again"
        ),
        StoreError::ReadOnly { place, reason } => anyhow::anyhow!(
            "{place} cannot be written ({reason}), so the server does not start: make it writable, \
             then start it again, or choose another folder with --data"
        ),
        StoreError::Corrupt { .. }
        | StoreError::BadPageToken { .. }
        | StoreError::Failed { .. } => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_never_said_to_go_on_by_itself() {
        let place = "/data".to_owned();
        let full = StoreError::DiskFull { place: place.clone() };
        let read_only = StoreError::ReadOnly { place, reason: "no".to_owned() };
        for error in [full, read_only] {
            assert!(error.to_string().contains("by itself"), "{error}");
            for said in [not_started(error.clone()), not_opened(error.into())] {
                let said = said.to_string();
                assert!(said.contains("/data") && said.contains("start it again"), "{said}");
                assert!(!said.contains("by itself"), "{said}");
            }
        }
    }
}

//! What is said when the store cannot be had at the start. A server that runs waits until the disk
//! takes its writes again; one that does not run goes on with nothing by itself.

use std::path::Path;

use stepwell_ports::StoreError;
use stepwell_store_sqlite::OpenError;

/// The store could not be opened.
pub(super) fn not_opened(error: OpenError) -> anyhow::Error {
    match error {
        OpenError::Store(error) => not_started(error),
        OpenError::NoFolder { .. } => {
            anyhow::anyhow!("--data: {error}: choose a folder with --data")
        }
        OpenError::Folder { .. } => anyhow::anyhow!(
            "{error}, so the server does not start: see to its rights and to free space, then start \
             it again, or choose another folder with --data"
        ),
        OpenError::NoStore { .. }
        | OpenError::InUse { .. }
        | OpenError::Newer { .. }
        | OpenError::Older { .. }
        | OpenError::Emptied { .. }
        | OpenError::Foreign { .. }
        | OpenError::NetworkFileSystem { .. } => error.into(),
    }
}

/// The file that stands where a folder is needed.
pub(super) fn file_in(place: &Path) -> Option<&Path> {
    place.ancestors().find(|it| it.is_file())
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
        StoreError::Corrupt { .. } => anyhow::anyhow!(
            "{error}, so the server does not start: restore it from a backup (docs/operations.md), \
             or choose another folder with --data"
        ),
        StoreError::BadPageToken { .. } | StoreError::Failed { .. } => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use stepwell_store_sqlite::{SqliteOptions, SqliteStore};

    use super::*;

    #[test]
    fn a_damaged_store_is_to_be_restored() {
        let error =
            StoreError::Corrupt { place: "/data".to_owned(), reason: "malformed".to_owned() };
        let said = not_started(error).to_string();
        assert!(said.contains("malformed") && said.contains("from a backup"), "{said}");
    }

    #[test]
    fn a_file_in_place_of_the_folder_is_called_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for data in [file.path().to_owned(), file.path().join("below")] {
            let error = SqliteStore::open(&data, &SqliteOptions::default()).unwrap_err();
            let said = not_opened(error).to_string();
            let shown = file.path().display().to_string();
            assert!(said.starts_with(&format!("--data: {shown} is a file")), "{said}");
        }
    }

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

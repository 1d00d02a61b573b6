//! What lists have in common in every store: which rows fit a filter, and page tokens.

use stepwell_core::summary::SessionRow;

use crate::store::{PAGE_ROWS_MAX, SessionFilter, StoreError};

/// Whether a row fits. Stores may narrow the choice by an index before; this has the last word.
pub fn fits(filter: &SessionFilter, row: &SessionRow) -> bool {
    (filter.statuses.is_empty() || filter.statuses.contains(&row.status))
        && filter.agent.as_ref().is_none_or(|agent| *agent == row.agent)
        && filter
            .labels
            .iter()
            .all(|(key, value)| row.labels.iter().any(|it| it.key == *key && it.value == *value))
        && filter
            .id_prefix
            .as_ref()
            .is_none_or(|prefix| row.session_id.to_string().starts_with(prefix.as_str()))
        && filter
            .text
            .as_ref()
            .is_none_or(|text| row.title.to_lowercase().contains(&text.to_lowercase()))
        && filter.parent.is_none_or(|parent| row.parent.is_some_and(|it| it.session_id == parent))
        && filter.updated_before.is_none_or(|before| row.updated_at < before)
}

/// Rows of one page for what was asked: at least one, so that every page moves on.
pub fn page_rows(limit: usize) -> usize {
    limit.clamp(1, PAGE_ROWS_MAX)
}

/// The last row of a page: the next page begins behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageToken<const N: usize> {
    /// Which list, so that a token of another list is refused.
    pub list: char,
    /// The row's sort keys, most significant first.
    pub keys: [u64; N],
}

impl<const N: usize> PageToken<N> {
    /// The token as callers see it. Opaque to them.
    pub fn encode(&self) -> String {
        let keys: Vec<String> = self.keys.iter().map(|key| format!("{key:x}")).collect();
        format!("{}{}", self.list, keys.join("-"))
    }

    /// Reads a token of `list`.
    ///
    /// # Errors
    /// [`StoreError::BadPageToken`] for anything that [`Self::encode`] does not write.
    pub fn decode(list: char, token: &str) -> Result<Self, StoreError> {
        let bad = || StoreError::BadPageToken { token: token.to_owned() };
        let keys = token.strip_prefix(list).ok_or_else(bad)?;
        let keys: Result<Vec<u64>, _> =
            keys.split('-').map(|key| u64::from_str_radix(key, 16)).collect();
        let keys = keys.ok().and_then(|keys| keys.try_into().ok()).ok_or_else(bad)?;
        let read = Self { list, keys };
        // `+1f` and `01f` read as numbers too, but no page ended with them.
        if read.encode() == token { Ok(read) } else { Err(bad()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_and_anything_else_is_refused() {
        let token = PageToken { list: 's', keys: [u64::MAX, 0] };
        assert_eq!(PageToken::decode('s', &token.encode()).unwrap(), token);
        for bad in ["", "s", "s1", "s1-2-3", "a1-2", "s1-x", "s+1-2", "s01-2", "s1-2 ", "sé-1"] {
            assert!(PageToken::<2>::decode('s', bad).is_err(), "{bad:?}");
        }
    }
}

//! Reading shell commands well enough to say whether every part of one is allowed.

use alloc::string::String;

/// Whether every part of `command` fits one of `rules` and nothing in it writes, substitutes or
/// evaluates. When in doubt: no.
pub fn is_allowed(_command: &str, _rules: &[String]) -> bool {
    false
}

/// Whether any part of `command` fits one of `rules`. When in doubt: yes.
pub fn mentions(_command: &str, _rules: &[String]) -> bool {
    true
}

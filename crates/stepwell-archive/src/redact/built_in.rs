//! Rules for secrets that need no pattern of the user. `docs/export-format.md` lists what they find.

/// A rule: its name, its patterns, whether it applies when the file of rules does not choose. Of a pattern
/// with a group only the group is removed.
pub const BUILT_IN: &[(&str, &[&str], bool)] = &[
    (
        "private_key",
        &[
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
            r"\bAGE-SECRET-KEY-1[0-9A-Z]{50,}",
        ],
        true,
    ),
    (
        "bearer_token",
        &[
            r"(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{16,})",
            r#"(?i)\bauthorization["']?\s*[:=]\s*["']?(?:basic|digest|token|apikey|negotiate|bot)\s+([^\s"',;\[][^\s"',;]{5,})"#,
            r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        ],
        true,
    ),
    ("api_key", API_KEYS, true),
    ("password", PASSWORDS, true),
    ("email", &[r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b"], false),
];

/// Words at the end of a name that make what follows it a secret.
macro_rules! named {
    ($value:literal) => {
        concat!(
            r#"(?i)\b[a-z0-9_]*(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|"#,
            r#"account[_-]?key|encryption[_-]?key|signing[_-]?key|secret|token|passwo?r?d|"#,
            r#"passwd|passphrase|credentials?)["']?\s*[:=]\s*"#,
            $value
        )
    };
}

/// Keys by their form. What stands behind an underscore (`call_ghp_…`) begins no word, so it is named.
const API_KEYS: &[&str] = &[
    r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}",
    r"_((?:sk|pk|rk)(?:-|_(?:live|test|prod)_)[A-Za-z0-9_-]{16,})",
    r"(?:\b|_)((?:AKIA|ASIA)[0-9A-Z]{16})\b",
    r"(?:\b|_)(gh[pousr]_[A-Za-z0-9]{30,})",
    r"(?:\b|_)(github_pat_[A-Za-z0-9_]{30,})",
    r"(?:\b|_)(gl(?:pat|dt|rt|ptt|ft|soat|cbt|agent|imt)-[A-Za-z0-9_-]{16,})",
    r"(?:\b|_)(npm_[A-Za-z0-9]{30,})",
    r"(?:\b|_)(pypi-[A-Za-z0-9_-]{40,})",
    r"(?:\b|_)(hf_[A-Za-z0-9]{30,})",
    r"(?:\b|_)(do[oprv]_v1_[a-f0-9]{64})",
    r"(?:\b|_)(whsec_[A-Za-z0-9+/=]{20,})",
    r"(?:\b|_)(xox[abeprs]-[A-Za-z0-9-]{10,})",
    r"(?:\b|_)(xapp-[A-Za-z0-9-]{20,})",
    r"(?:\b|_)(AIza[0-9A-Za-z_-]{35})",
    r"(?:\b|_)(ya29\.[0-9A-Za-z_-]{20,})",
    r"(?:\b|_)(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})",
    // The path of a web hook is its key.
    r"\bhooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9_/-]{8,})",
    r"\bdiscord(?:app)?\.com/api/webhooks/([0-9]+/[A-Za-z0-9_-]{16,})",
    named!(r#"["']?([^\s"',;\[\]{}]{8,})"#),
    // In quotes it may have blanks. A marker stands there where it was removed before.
    named!(r#""([^"\n\[][^"\n]{5,})""#),
    named!(r#"'([^'\n\[][^'\n]{5,})'"#),
];

/// Passwords by the place where they stand.
const PASSWORDS: &[&str] = &[
    // scheme://user:password@host
    r#"(?i)\b[a-z][a-z0-9+.-]*://[^\s/:@"'<>]*:([^\s/"'<>\[][^\s/"'<>]*)@"#,
    // curl --user user:password
    r#"\bcurl\b[^\n|;]*?\s(?:-u|-U|--user|--proxy-user)[\s=]*["']?[^\s:"']+:([^\s"'\[]+)"#,
    r#"\bcurl\b[^\n|;]*?\s(?:-u|-U|--user|--proxy-user)[\s=]*"[^:"\n]+:([^"\n\[]+)""#,
    r"\bcurl\b[^\n|;]*?\s(?:-u|-U|--user|--proxy-user)[\s=]*'[^:'\n]+:([^'\n\[]+)'",
];

//! Which variables a command sees: an allow-list, because the worker's own environment holds keys.

use std::ffi::{OsStr, OsString};

use super::super::BuiltinOptions;

/// What programs need to find their parts and to write in the person's language. Proxy variables
/// are not among them: they often hold passwords.
const ALLOWED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    // Where tool chains are installed: without these many images cannot build.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
/// Every variable whose name begins so.
const ALLOWED_PREFIX: &str = "LC_";
/// Set for every command, because nobody can answer a question or press a key: pagers and password
/// questions would wait until the time is over.
const ALWAYS: &[(&str, &str)] =
    &[("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0")];
/// Where programs are looked for when the worker itself has no `PATH`.
pub(super) const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// The variables of a command.
pub(super) fn command_environment(options: BuiltinOptions) -> Vec<(OsString, OsString)> {
    let BuiltinOptions { environment, extra_variables } = options;
    let own = environment.unwrap_or_else(|| std::env::vars_os().collect());
    let is_allowed = |name: &OsStr| {
        name.to_str().is_some_and(|name| {
            ALLOWED.contains(&name)
                || name.starts_with(ALLOWED_PREFIX)
                || extra_variables.iter().any(|extra| extra == name)
        })
    };
    let mut variables: Vec<_> = own.into_iter().filter(|(name, _)| is_allowed(name)).collect();
    if !variables.iter().any(|(name, _)| name == "PATH") {
        variables.push(("PATH".into(), PATH_DEFAULT.into()));
    }
    variables.extend(ALWAYS.iter().map(|(name, value)| (name.into(), value.into())));
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_names_get_through() {
        let own = [
            ("PATH", "/bin"),
            ("LC_ALL", "C.UTF-8"),
            ("OPENAI_API_KEY", "sk-canary"),
            ("DATABASE_URL", "canary"),
            ("GIT_DIR", "canary"),
            ("LD_PRELOAD", "canary"),
            ("MY_FLAG", "yes"),
            ("path", "canary"),
        ];
        let options = BuiltinOptions {
            environment: Some(own.map(|(name, value)| (name.into(), value.into())).to_vec()),
            extra_variables: vec!["MY_FLAG".to_owned()],
        };
        let seen = format!("{:?}", command_environment(options));
        assert!(!seen.contains("canary"), "{seen}");
        for expected in ["\"/bin\"", "C.UTF-8", "\"MY_FLAG\", \"yes\"", "GIT_TERMINAL_PROMPT"] {
            assert!(seen.contains(expected), "{expected} is not in {seen}");
        }
    }

    #[test]
    fn there_is_always_a_path() {
        let options = BuiltinOptions { environment: Some(Vec::new()), ..BuiltinOptions::default() };
        let seen = command_environment(options);
        assert!(seen.contains(&("PATH".into(), PATH_DEFAULT.into())), "{seen:?}");
    }
}

//! Where a call goes: address and key, and how both look in words.
//!
//! Invariant: the key leaves this module only as a header that is marked sensitive, and every
//! message of a failure passes [`Target::failure`], which strikes the key out.

use std::{env, iter};

use reqwest::Url;
use reqwest::header::HeaderValue;
use stepwell_core::agent::ModelSpec;
use stepwell_core::event::ModelErrorKind;
use stepwell_ports::ModelFailure;

use crate::endpoints::in_api;
use crate::key;

/// Bytes of a failure's message, at most: it is stored with every failed attempt.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Shorter keys are placeholders (`none`, `EMPTY`), and striking them out would only garble words.
const SECRET_BYTES_MIN: usize = 6;

/// The address and key of one call.
pub(crate) struct Target {
    /// Where the request is posted, with everything that the base address holds.
    pub(crate) url: Url,
    /// The address in words: without user, password and query.
    pub(crate) endpoint: String,
    /// Host and port in words.
    pub(crate) address: String,
    key_env: Option<String>,
    key: Option<String>,
}

impl Target {
    /// The address `base_url`, and the key that `key_env` names by `variable` (a look into the
    /// environment).
    ///
    /// # Errors
    /// A base address that is none, and a key that is named but not there.
    pub(crate) fn new(
        base_url: &str,
        key_env: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ModelFailure> {
        let url = completions_url(base_url).map_err(|reason| {
            let shown = base_url.rsplit('@').next().unwrap_or_default();
            let message = format!("base_url is no usable address: {reason}");
            ModelFailure::new(shown.into(), ModelErrorKind::BadRequest, message)
        })?;
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let mut target = Self {
            endpoint: without_secrets(&url),
            address: format!("{host}:{port}"),
            url,
            key_env: key_env.map(str::to_owned),
            key: None,
        };
        if let Some(name) = &target.key_env {
            let key = key::find(name, variable);
            target.key =
                Some(key.map_err(|problem| target.failure(ModelErrorKind::Unauthorized, problem))?);
        }
        Ok(target)
    }

    /// All addresses of `model`, with the key from the environment of the process.
    pub(crate) fn all(model: &ModelSpec) -> Result<Vec<Self>, ModelFailure> {
        let key_env = model.api_key_env.as_deref();
        let base_urls = iter::once(&model.base_url).chain(&model.replicas);
        base_urls.map(|it| Self::new(it, key_env, |name| env::var(name).ok())).collect()
    }

    /// Another path of the same API.
    pub(crate) fn in_api(self, name: &str) -> Self {
        let url = in_api(&self.url, name);
        Self { endpoint: without_secrets(&url), url, ..self }
    }

    /// There is no address to ask.
    pub(crate) fn nowhere() -> ModelFailure {
        let message = "the model has no address: set base_url".to_owned();
        ModelFailure::new(String::new(), ModelErrorKind::BadRequest, message)
    }

    /// The header that holds the key.
    ///
    /// # Errors
    /// A key that no header can hold.
    pub(crate) fn authorization(&self) -> Result<Option<HeaderValue>, ModelFailure> {
        let Some(key) = &self.key else { return Ok(None) };
        let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {key}")) else {
            let name = self.key_env.as_deref().unwrap_or_default();
            let message = format!(
                "the key of {name} (the environment variable, or the file that {name}_FILE names) \
                 holds characters that cannot be sent"
            );
            return Err(self.failure(ModelErrorKind::Unauthorized, message));
        };
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// What to do about a refused key.
    pub(crate) fn key_advice(&self) -> String {
        match &self.key_env {
            Some(name) => {
                format!(
                    "the server refuses the key of {name}: the environment variable, or the file \
                     that {name}_FILE names"
                )
            }
            None => "no key is named for this address: set api_key_env of its [model] or \
                     [[model.fallback]] to the name of an environment variable that holds it"
                .into(),
        }
    }

    /// A failure of this call, with the key struck out and its length bound.
    pub(crate) fn failure(&self, kind: ModelErrorKind, message: String) -> ModelFailure {
        ModelFailure::new(self.endpoint.clone(), kind, shortened(self.without_key(message)))
    }

    /// Words of a server without the key that was sent to it, not even the begin of one at their end:
    /// they may have been cut there.
    pub(crate) fn without_key(&self, words: String) -> String {
        const STRUCK: &str = "[key]";
        let Some(key) = self.key.as_deref().filter(|key| key.len() >= SECRET_BYTES_MIN) else {
            return words;
        };
        let mut words = if words.contains(key) { words.replace(key, STRUCK) } else { words };
        let begins = (SECRET_BYTES_MIN..key.len()).rev().filter_map(|end| key.get(..end));
        if let Some(begin) = begins.into_iter().find(|begin| words.ends_with(begin)) {
            words.truncate(words.len() - begin.len());
            words.push_str(STRUCK);
        }
        words
    }
}

/// `base_url` with `/chat/completions` behind its path. Its query stays, for gateways that need one.
fn completions_url(base_url: &str) -> Result<Url, String> {
    let mut url = Url::parse(base_url.trim()).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("it begins with {}:, not with http: or https:", url.scheme()));
    }
    if url.path().trim_end_matches('/').ends_with("/chat/completions") {
        return Ok(url);
    }
    url.path_segments_mut()
        .map_err(|()| "it has no path")?
        .pop_if_empty()
        .extend(["chat", "completions"]);
    Ok(url)
}

fn without_secrets(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only for addresses without a host, which http cannot have.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// Cuts `message` to [`MESSAGE_BYTES_MAX`], between two characters.
fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        let end = (0..=MESSAGE_BYTES_MAX).rfind(|at| message.is_char_boundary(*at));
        message.truncate(end.unwrap_or_default());
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_key(key: &str) -> Result<Target, ModelFailure> {
        let key = Some(key.to_owned());
        Target::new("http://h/v1", Some("KEY_ENV"), |_| key.clone())
    }

    #[track_caller]
    fn check_url(base_url: &str, url: &str, endpoint: &str) {
        let target = Target::new(base_url, None, |_| None).ok().unwrap();
        assert_eq!((target.url.as_str(), target.endpoint.as_str()), (url, endpoint));
    }

    #[test]
    fn the_path_is_added_once() {
        let url = "http://127.0.0.1:8000/v1/chat/completions";
        for base in ["http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/", url] {
            check_url(base, url, url);
        }
        let root = "http://h/chat/completions";
        check_url("http://h", root, root);
    }

    #[test]
    fn secrets_of_the_address_are_sent_and_not_shown() {
        check_url(
            "https://me:secret@h/v1?key=secret#x",
            "https://me:secret@h/v1/chat/completions?key=secret#x",
            "https://h/v1/chat/completions",
        );
        let failure = Target::new("htp://me:secret@h", None, |_| None).err().unwrap();
        assert!(!failure.to_string().contains("secret"), "{failure}");
    }

    #[test]
    fn a_bad_address_says_so() {
        for base in ["", "127.0.0.1:8000", "ftp://h", "/v1", "http://"] {
            let failure = Target::new(base, None, |_| None).err().unwrap();
            assert_eq!(failure.kind, ModelErrorKind::BadRequest);
            assert!(failure.message.starts_with("base_url is no usable address"), "{failure}");
        }
    }

    #[test]
    fn a_key_that_is_not_there_names_its_variable() {
        for key in [None, Some(String::new()), Some(" \n".into())] {
            let failure = Target::new("http://h/v1", Some("KEY_ENV"), |_| key.clone());
            let failure = failure.err().unwrap();
            assert_eq!(failure.kind, ModelErrorKind::Unauthorized);
            assert!(failure.message.contains("KEY_ENV"), "{failure}");
        }
    }

    #[test]
    fn the_key_is_sent_trimmed_and_marked() {
        let value = with_key("sk-123456\n").ok().unwrap().authorization().unwrap().unwrap();
        assert_eq!(value, "Bearer sk-123456");
        assert!(value.is_sensitive());
    }

    #[test]
    fn a_key_that_cannot_be_sent_is_not_shown() {
        let failure = with_key("sk-1234\u{1}56").ok().unwrap().authorization().unwrap_err();
        assert!(failure.message.contains("KEY_ENV") && !failure.message.contains("sk-"));
    }

    #[test]
    fn the_key_is_struck_out_of_messages() {
        let target = with_key("sk-123456").ok().unwrap();
        let failure = target.failure(ModelErrorKind::Unauthorized, "no sk-123456, sorry".into());
        assert_eq!(failure.message, "no [key], sorry");
        let failure = target.failure(ModelErrorKind::Unauthorized, "it was sk-1234".into());
        assert_eq!(failure.message, "it was [key]");
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let target = with_key("sk-123456").ok().unwrap();
        let failure = target.failure(ModelErrorKind::BadRequest, "ä".repeat(MESSAGE_BYTES_MAX));
        assert_eq!(failure.message.chars().count(), MESSAGE_BYTES_MAX / 2 + 1);
    }
}

//! `[model]`: which model, where, with which parameters, how long it may take.

use stepwell_core::JsonText;
use stepwell_core::agent::{FallbackModel, FallbackRule, History, ModelSpec, ModelTimeouts};
use toml::de::DeValue;

use super::ModelDefaults;
use super::output::{self, Written};
use super::reader::{Placed, Section};

/// Members of a request that the engine writes itself; a second one would make it ambiguous.
const RESERVED: [&str; 5] = ["model", "messages", "tools", "stream", "stream_options"];

/// Asks for token ids. It is a key of its own, because what comes of it is recorded.
const RETURN_TOKEN_IDS: &str = "return_token_ids";

/// Attempts of a step before a fallback's turn, when `after` does not say.
const FALLBACK_AFTER_DEFAULT: u32 = 3;

/// Request parameters that people put one level too high.
const PARAMETERS: [&str; 10] = [
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "top_p",
    "top_k",
    "seed",
    "stop",
    "response_format",
    "presence_penalty",
    "frequency_penalty",
];

/// Reads `[model]`; what it leaves out comes from `defaults`.
pub(super) fn read(
    document: &mut Section<'_>,
    defaults: &ModelDefaults,
) -> (Option<ModelSpec>, Written) {
    let mut section = document.section("model");
    let name = section.text("name").map(|it| it.value);
    let written_url = section.text("base_url");
    let written_replicas = section.strings("replicas");
    let written_key = section.text("api_key_env");
    let parameters = parameters(&mut section);
    let timeouts = timeouts(&mut section);
    let output = output::read_model(&mut section);
    let history = history(&mut section);
    let token_ids = section.flag("token_ids").unwrap_or(false);

    let name = name.or_else(|| defaults.name.clone());
    if name.is_none() && !section.has("name") {
        section.missing(
            "name",
            "the model's name as its server knows it, or set STEPWELL_MODEL where the server runs",
        );
    }
    let has_url = written_url.is_some();
    let base_url = match written_url {
        Some(url) => checked_url(&section, "base_url", &url),
        None => defaults.base_url.clone(),
    };
    if base_url.is_none() && !has_url && !section.has("base_url") {
        section.missing(
            "base_url",
            "for example \"http://127.0.0.1:8000/v1\", or set STEPWELL_MODEL_URL where the server \
             runs",
        );
    }
    let replicas = match written_replicas {
        Some(urls) => replicas(&section, &urls, base_url.as_deref()),
        None if !has_url => defaults.replicas.clone(),
        None => Vec::new(),
    };
    let api_key_env = match written_key {
        Some(key) => checked_key_name(&section, &key),
        // The default key is for the default address: no other server may be sent it.
        None if !has_url => defaults.api_key_env.clone(),
        None => None,
    };
    let fallbacks = fallbacks(&mut section);
    let fallback_rule = match fallbacks.as_slice() {
        // Without fallbacks there is nothing to rule, and the definition stays as it was.
        [] => FallbackRule::default(),
        [_, ..] => FallbackRule::ByNeed,
    };
    section.finish(|key| {
        PARAMETERS.contains(&key).then_some("write it into `parameters = { … }` of [model]")
    });
    let model = || {
        Some(ModelSpec {
            name: name?,
            base_url: base_url?,
            replicas,
            api_key_env,
            parameters: parameters?,
            timeouts,
            fallbacks,
            fallback_rule,
            history,
            token_ids,
        })
    };
    (model(), output)
}

fn history(section: &mut Section<'_>) -> History {
    let Some(text) = section.string("history") else { return History::default() };
    match text.value.as_str() {
        "calls" => History::Calls,
        "text" => History::Text,
        "tokens" => History::Tokens,
        other => {
            let problem = format!("`history` must be calls, text or tokens, not `{other}`");
            section.reader().problem(text.at, problem);
            History::default()
        }
    }
}

/// Reads `[[model.fallback]]`. Nothing of it has defaults of the server: a fallback is another model.
fn fallbacks(model: &mut Section<'_>) -> Vec<FallbackModel> {
    let sections = model.sections("fallback");
    sections.into_iter().filter_map(fallback).collect()
}

fn fallback(mut section: Section<'_>) -> Option<FallbackModel> {
    let name = section.text("name").map(|it| it.value);
    if name.is_none() && !section.has("name") {
        section.missing("name", "the model's name as its server knows it");
    }
    let written_url = section.text("base_url");
    if written_url.is_none() && !section.has("base_url") {
        section.missing("base_url", "for example \"http://127.0.0.1:8001/v1\"");
    }
    let base_url = written_url.and_then(|it| checked_url(&section, "base_url", &it));
    let urls = section.strings("replicas").unwrap_or_default();
    let replicas = replicas(&section, &urls, base_url.as_deref());
    let written_key = section.text("api_key_env");
    let api_key_env = written_key.and_then(|it| checked_key_name(&section, &it));
    let after_attempts = section.small_number("after", 1).unwrap_or(FALLBACK_AFTER_DEFAULT);
    section.finish(|_| None);
    Some(FallbackModel { after_attempts, name: name?, base_url: base_url?, replicas, api_key_env })
}

/// Addresses of further servers. One that is there twice would be thought to be two.
fn replicas(section: &Section<'_>, urls: &[Placed<String>], base_url: Option<&str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for url in urls {
        let Some(checked) = checked_url(section, "replicas", url) else { continue };
        if base_url == Some(&checked) || found.contains(&checked) {
            let problem = format!("`replicas` names {checked}, which is there already");
            section.reader().problem(url.at, problem);
        }
        found.push(checked);
    }
    found
}

fn parameters(section: &mut Section<'_>) -> Option<JsonText> {
    let Some(entries) = section.entries("parameters") else {
        // What is there and no table was noted as a problem.
        return Some(JsonText::empty_object());
    };
    for (key, value) in entries {
        if RESERVED.contains(&key.value) {
            let problem = format!("`{}` is written by Stepwell itself: leave it out", key.value);
            section.reader().problem(key.at, problem);
        }
        if key.value == RETURN_TOKEN_IDS {
            let problem = format!("`{RETURN_TOKEN_IDS}`: write `token_ids = true` into [model]");
            section.reader().problem(key.at, problem);
        }
        if key.value == "n"
            && !matches!(value.get_ref(), DeValue::Integer(it) if it.as_str() == "1")
        {
            section.reader().problem(key.at, "`n` must be 1: a step has one answer");
        }
    }
    section.json_object("parameters").map(|it| it.value)
}

fn timeouts(model: &mut Section<'_>) -> ModelTimeouts {
    let default = ModelTimeouts::default();
    let mut section = model.section("timeouts");
    let timeouts = ModelTimeouts {
        connect_ms: section.duration_ms("connect").unwrap_or(default.connect_ms),
        first_token_ms: section.duration_ms("first_token").unwrap_or(default.first_token_ms),
        between_tokens_ms: section
            .duration_ms("between_tokens")
            .unwrap_or(default.between_tokens_ms),
        total_ms: section.duration_ms("total").unwrap_or(default.total_ms),
    };
    section.finish(|_| None);
    timeouts
}

fn checked_url(section: &Section<'_>, key: &str, url: &Placed<String>) -> Option<String> {
    match check_url(&url.value) {
        Ok(text) => Some(text.to_owned()),
        Err(problem) => {
            section.reader().problem(url.at, format!("`{key}` {problem}"));
            None
        }
    }
}

/// The address of a model's API, whoever writes it, or what is wrong with it. The text is not quoted:
/// it may hold a password.
///
/// # Errors
/// What is wrong with it, to follow the name of the field.
pub fn check_url(text: &str) -> Result<&str, &'static str> {
    let text = text.trim();
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let is_http = ["http", "https"].iter().any(|it| it.eq_ignore_ascii_case(scheme));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    if !is_http {
        Err("must begin with http:// or https://, for example \"http://127.0.0.1:8000/v1\"")
    } else if authority.contains('@') {
        Err("holds a user or password, which every session would keep: use `api_key_env`")
    } else if query.split('&').any(names_a_secret) {
        Err("holds a key in its query, which every session would keep: use `api_key_env`")
    } else if !has_port_or_none(authority) {
        Err("has behind its colon no port from 1 to 65535")
    } else if authority.is_empty() || text.contains(char::is_whitespace) {
        Err("is no address: write for example \"http://127.0.0.1:8000/v1\"")
    } else {
        Ok(text)
    }
}

/// Whether a part of a query is a key by its name. Others are for gateways: `api-version=…`.
fn names_a_secret(part: &str) -> bool {
    const NAMES: [&str; 9] = [
        "key",
        "apikey",
        "token",
        "accesstoken",
        "sig",
        "signature",
        "password",
        "secret",
        "subscriptionkey",
    ];
    let name = part.split('=').next().unwrap_or_default();
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    NAMES.contains(&plain.to_ascii_lowercase().as_str())
}

/// Whether what stands behind the host of `HOST:PORT` or `[IPV6]:PORT` is a port, if there is any.
fn has_port_or_none(authority: &str) -> bool {
    let behind_ipv6 = authority.rsplit_once(']').map(|(_, rest)| rest);
    let port = behind_ipv6.unwrap_or(authority).rsplit_once(':').map(|(_, port)| port);
    port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// The value is not quoted in the message: it may be the key itself.
fn checked_key_name(section: &Section<'_>, name: &Placed<String>) -> Option<String> {
    let text = name.value.trim();
    let begins_well = text.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
    if begins_well && text.chars().all(|it| it.is_ascii_alphanumeric() || it == '_') {
        return Some(text.to_owned());
    }
    section.reader().problem(
        name.at,
        "`api_key_env` must be the name of an environment variable, for example \
         \"OPENAI_API_KEY\"; the key itself does not belong into this file",
    );
    None
}

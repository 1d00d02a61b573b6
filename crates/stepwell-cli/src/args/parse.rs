//! Values that need more than one word of checking.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::builder::{StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use serde::{Deserialize as _, Deserializer, de};
use stepwell_core::text::shorten;
use stepwell_proto::v1::SessionStatus;

use crate::exit::Exit;
use crate::view::json::status_name;

/// `key=value`.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE, for example team=core".to_owned()),
    }
}

/// `127.0.0.1:7171`; `localhost` stands for this machine.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:")
        && let Ok(port) = port.parse()
    {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| {
        "write IP:PORT, for example 127.0.0.1:7171, [::1]:7171, or 0.0.0.0:7171 for all networks"
            .to_owned()
    })
}

/// A key of the caller's own. An empty one comes from a variable that is not set, and would be no key.
pub(super) fn client_key(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("the key is empty, so a second try would not be known: give one, or leave \
                    --key out"
            .to_owned());
    }
    Ok(text.to_owned())
}

/// Longest name of a session or an approval, with room for the surroundings that copying brings.
const ID_BYTES_MAX: usize = 64;

/// The id of a session or an approval, or its beginning. What is longer is something else, and too
/// long to be repeated in an error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Id {
    or_file: bool,
}

/// An id.
pub(super) const ID: Id = Id { or_file: false };

/// An id, or the name of a file.
pub(super) const ID_OR_FILE: Id = Id { or_file: true };

impl TypedValueParser for Id {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let text = StringValueParser::new().parse_ref(command, arg, value)?;
        let is_file = self.or_file && text.contains(['.', '/']);
        if is_file || text.len() <= ID_BYTES_MAX {
            return Ok(text);
        }
        let start = shorten(&text, ID_BYTES_MAX);
        let problem =
            format!("no id has {} bytes, it has 26 letters and digits: {start}\n", text.len());
        Err(clap::Error::raw(ErrorKind::ValueValidation, problem).with_cmd(command))
    }
}

/// The name of a host alone.
pub(super) fn host_name(text: &str) -> Result<String, String> {
    let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | '_');
    if text.is_empty() || !text.chars().all(is_name) {
        return Err(
            "write the name of a host without scheme and port, for example gpu.example".into()
        );
    }
    Ok(text.to_owned())
}

/// The same, as a list in a config file.
pub(crate) fn host_names<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(list)?;
    names.iter().map(|it| host_name(it)).collect::<Result<_, _>>().map_err(de::Error::custom)
}

/// The address of a model's API. An empty one comes from a variable that is not set, and is none.
pub(super) fn model_address(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    match stepwell_server::agent_file::check_url(text) {
        Ok(url) => Ok(url.to_owned()),
        Err(problem) => Err(format!("it {problem}")),
    }
}

/// The same in a config file.
pub(crate) fn filed_address<'de, D: Deserializer<'de>>(
    text: D,
) -> Result<Option<String>, D::Error> {
    let url = model_address(&String::deserialize(text)?).map_err(de::Error::custom)?;
    Ok((!url.is_empty()).then_some(url))
}

/// The same, as a list in a config file.
pub(crate) fn filed_addresses<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<String>, D::Error> {
    let urls = Vec::<String>::deserialize(list)?;
    urls.iter().map(|it| model_address(it)).collect::<Result<_, _>>().map_err(de::Error::custom)
}

/// Every status that a session can have, by the names of `--json`.
pub(super) fn status_names() -> Vec<String> {
    all_statuses().map(status_name).collect()
}

/// Those that a session keeps for good.
pub(super) fn over_status_names() -> Vec<String> {
    all_statuses().filter(|it| Exit::of_finished(*it).is_some()).map(status_name).collect()
}

/// A time that has passed, for example `30d`.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    stepwell_server::agent_file::read_duration_ms(text).map(Duration::from_millis)
}

/// The status of that name.
pub(crate) fn status_of(name: &str) -> Option<SessionStatus> {
    all_statuses().find(|status| status_name(*status) == name)
}

fn all_statuses() -> impl Iterator<Item = SessionStatus> {
    // 0 is "unspecified"; the numbers of the proto have no gaps.
    (1..).map_while(|number| SessionStatus::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_key_and_value() {
        assert_eq!(label("a=b=c").unwrap(), ("a".into(), "b=c".into()));
        assert_eq!(label("a=").unwrap(), ("a".into(), String::new()));
        for wrong in ["", "a", "=b"] {
            assert!(label(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_are_ip_and_port() {
        for (text, address_text) in [
            ("127.0.0.1:7171", "127.0.0.1:7171"),
            ("localhost:0", "127.0.0.1:0"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), address_text);
        }
        for wrong in ["7171", ":7171", "localhost", "host:80", "http://127.0.0.1:1"] {
            assert!(address(wrong).unwrap_err().contains("127.0.0.1:7171"), "{wrong}");
        }
    }

    #[test]
    fn what_is_too_long_for_an_id_is_none() {
        let command = clap::Command::new("x");
        let read = |kind: Id, text: &str| kind.parse_ref(&command, None, OsStr::new(text));
        for text in ["01J", "01KYS8D3V0QXG6N9T7W2B4C5E6.18446744073709551615", ""] {
            assert_eq!(read(ID, text).unwrap(), text);
        }
        let long = "0".repeat(100_000);
        let error = read(ID, &long).unwrap_err().to_string();
        assert!(error.contains("no id has 100000 bytes") && error.len() < 1_000, "{error}");
        assert!(read(ID_OR_FILE, &long).is_err());
        assert!(read(ID_OR_FILE, &format!("./{long}")).is_ok());
    }

    #[test]
    fn host_names_have_neither_scheme_nor_port() {
        assert_eq!(host_name("gpu.example").unwrap(), "gpu.example");
        for wrong in ["", "http://gpu", "gpu:7171", "*", "a b"] {
            assert!(host_name(wrong).unwrap_err().contains("gpu.example"), "{wrong}");
        }
    }

    #[test]
    fn model_addresses_are_checked_as_in_an_agent_file() {
        assert_eq!(model_address(" http://h:1/v1 ").unwrap(), "http://h:1/v1");
        assert_eq!(model_address("").unwrap(), "");
        for good in ["HTTP://LOCALHOST/v1", "http://[::1]:8000", "https://h/v1?api-version=1"] {
            assert_eq!(model_address(good).unwrap(), good);
        }
        for (wrong, problem) in [
            ("127.0.0.1:8000", "it must begin with http://"),
            ("http://u:secret@h/v1", "it holds a user or password"),
            ("http:///v1", "it is no address"),
        ] {
            let error = model_address(wrong).unwrap_err();
            assert!(error.starts_with(problem) && !error.contains("secret"), "{wrong}: {error}");
        }
    }

    #[test]
    fn every_status_has_a_name_that_leads_back() {
        let names = status_names();
        assert_eq!(names.len(), 12);
        for name in names {
            assert_eq!(status_of(&name).map(status_name), Some(name));
        }
        assert_eq!(status_of("unspecified"), None);
    }
}

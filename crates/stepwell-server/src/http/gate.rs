//! Who may speak to the port: a page in somebody's browser reaches it as easily as a program of
//! theirs does, so the name it was asked by and the page that asks are looked at first.
//!
//! A page that lies about its own name (DNS rebinding) gives itself away by `Host`; a page of another
//! site by `Origin`, which programs do not send. An address in place of a name needs no permission:
//! nobody can make an address point elsewhere.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr as _;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tonic::Status;

use super::error::HttpError;

/// The names that this server may be asked by.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    allowed: Arc<[String]>,
}

impl Gate {
    /// A gate for loopback, addresses, and these names.
    pub(crate) fn new(allowed: &[String]) -> Self {
        Self { allowed: allowed.iter().map(|it| plain(it)).collect() }
    }

    fn check(&self, request: &Request) -> Result<(), Status> {
        let asked = asked_by(request)?;
        for host in &asked {
            if !self.is_ours(host) {
                return Err(strange_host(host.host()));
            }
        }
        let Some(origin) = request.headers().get(ORIGIN) else { return Ok(()) };
        let from = origin.to_str().ok().and_then(origin_authority);
        let is_welcome = from.is_some_and(|from| {
            self.is_allowed(&from) || asked.iter().any(|host| is_same(host, &from))
        });
        if is_welcome { Ok(()) } else { Err(strange_origin(origin)) }
    }

    fn is_ours(&self, host: &Authority) -> bool {
        let name = plain(host.host());
        name == "localhost" || is_address(&name) || self.is_allowed(host)
    }

    fn is_allowed(&self, host: &Authority) -> bool {
        self.allowed.contains(&plain(host.host()))
    }
}

/// Lets a request through, or says why not in the words of its protocol.
pub(crate) async fn guard(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    match gate.check(&request) {
        Ok(()) => next.run(request).await,
        Err(status) if speaks_grpc(request.headers()) => status.into_http(),
        Err(status) => HttpError(status).into_response(),
    }
}

/// Every name that the request gives for the server. None at all only comes from programs: a browser
/// always names the host.
fn asked_by(request: &Request) -> Result<Vec<Authority>, Status> {
    let mut asked: Vec<Authority> = request.uri().authority().cloned().into_iter().collect();
    for value in request.headers().get_all(HOST) {
        let host = value.to_str().ok().and_then(|it| Authority::from_str(it).ok());
        asked.push(host.ok_or_else(|| strange_host(&shown(value)))?);
    }
    Ok(asked)
}

/// Host and port of `http://host:port`; nothing for `null` and whatever is no web page.
fn origin_authority(origin: &str) -> Option<Authority> {
    let (scheme, rest) = origin.split_once("://")?;
    let is_web = matches!(scheme, "http" | "https");
    Authority::from_str(rest).ok().filter(|_| is_web)
}

fn is_same(one: &Authority, other: &Authority) -> bool {
    plain(one.host()) == plain(other.host()) && one.port_u16() == other.port_u16()
}

fn is_address(name: &str) -> bool {
    let inside = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    match inside {
        Some(inside) => Ipv6Addr::from_str(inside).is_ok(),
        None => Ipv4Addr::from_str(name).is_ok(),
    }
}

/// Names are the same in any case, with and without the dot of the root.
fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn strange_host(name: &str) -> Status {
    Status::permission_denied(format!(
        "this server does not answer to the name {name:?}, nothing was done: ask it by its IP \
         address, or start it with `stepwell serve --allow-host NAME`"
    ))
}

fn strange_origin(origin: &HeaderValue) -> Status {
    Status::permission_denied(format!(
        "a page of {:?} may not use this server, nothing was done: if you trust that site, start the \
         server with `stepwell serve --allow-host NAME`",
        shown(origin)
    ))
}

fn shown(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Whether a request speaks gRPC.
pub(super) fn speaks_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(axum::http::header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    kind.is_some_and(|it| it.starts_with("application/grpc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_let_in(uri: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = axum::http::Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(axum::body::Body::empty()).unwrap();
        Gate::new(&["Gpu.Example.".into()]).check(&request).is_ok()
    }

    #[test]
    fn only_names_that_are_ours_are_answered_to() {
        for host in [
            "localhost",
            "LOCALHOST:7171",
            "127.0.0.1:7171",
            "[::1]:7171",
            "192.168.1.5:7171",
            "gpu.example",
            "GPU.example.:80",
        ] {
            assert!(is_let_in("/", &[("host", host)]), "{host}");
            assert!(is_let_in(&format!("http://{host}/x"), &[]), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:7171", "gpu"]
        {
            assert!(!is_let_in("/", &[("host", host)]), "{host}");
            assert!(!is_let_in(&format!("http://{host}/x"), &[]), "{host}");
        }
        assert!(!is_let_in("http://localhost/x", &[("host", "evil.example")]), "both must be ours");
        assert!(!is_let_in("/", &[("host", "a b")]));
        assert!(is_let_in("/", &[]), "a program that names no host");
    }

    #[test]
    fn only_pages_of_this_server_and_of_allowed_hosts_may_ask() {
        for origin in ["http://127.0.0.1:7171", "https://127.0.0.1:7171", "http://gpu.example:3000"]
        {
            let headers = [("host", "127.0.0.1:7171"), ("origin", origin)];
            assert!(is_let_in("/", &headers), "{origin}");
        }
        for origin in [
            "http://evil.example",
            "http://127.0.0.1:3000",
            "http://localhost:7171",
            "null",
            "file://",
            "chrome-extension://127.0.0.1:7171",
            "",
        ] {
            let headers = [("host", "127.0.0.1:7171"), ("origin", origin)];
            assert!(!is_let_in("/", &headers), "{origin}");
        }
    }
}

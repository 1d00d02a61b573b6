//! HTTP clients with their pools of connections, made when first needed.

use std::collections::BTreeMap;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use reqwest::{Client, Url, redirect};

/// An idle connection is given up after this time. vLLM (uvicorn) closes one after 5 s, and a
/// request that meets such a close in flight fails for nothing.
const POOL_IDLE_MS_MAX: u64 = 4_000;

/// Idle connections to one server, at most; above it a new one is made for the next request.
const POOL_IDLE_CONNECTIONS_MAX: usize = 1_024;

/// Clients with their own pools, at most. There is one for each connect limit in use, which are few.
const CLIENTS_MAX: usize = 16;

/// Longer limits are cut to this, a day: nobody waits longer for a connection.
const CONNECT_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// What a client is made for. `reqwest` fixes these for a client, not for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Purpose {
    connect_ms: u64,
    /// Loads the system's certificates, which takes time and may fail where there are none, so it
    /// is done only when an address needs it.
    is_secure: bool,
    /// A server on this machine is never asked through a proxy.
    is_local: bool,
}

/// The clients in use.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    made: Mutex<BTreeMap<Purpose, Client>>,
}

impl Clients {
    /// A client for `url` that gives up connecting after `connect_ms`.
    pub(crate) fn get(&self, url: &Url, connect_ms: u64) -> reqwest::Result<Client> {
        let purpose = Purpose {
            connect_ms: connect_ms.min(CONNECT_MS_MAX),
            is_secure: url.scheme() == "https",
            is_local: is_local(url),
        };
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = made.get(&purpose) {
            return Ok(client.clone());
        }
        let client = make(purpose)?;
        if made.len() >= CLIENTS_MAX {
            // Requests under way keep their client; the pool is all that is lost.
            made.pop_first();
        }
        made.insert(purpose, client.clone());
        Ok(client)
    }
}

fn make(purpose: Purpose) -> reqwest::Result<Client> {
    install_crypto();
    let mut builder = Client::builder()
        .user_agent(concat!("stepwell/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_millis(purpose.connect_ms))
        .pool_idle_timeout(Duration::from_millis(POOL_IDLE_MS_MAX))
        .pool_max_idle_per_host(POOL_IDLE_CONNECTIONS_MAX)
        // The core decides about repeating; a redirect could carry the key to another host.
        .retry(reqwest::retry::never())
        .redirect(redirect::Policy::none());
    if !purpose.is_secure {
        builder = builder.tls_certs_only([]);
    }
    if purpose.is_local {
        builder = builder.no_proxy();
    }
    builder.build()
}

/// `reqwest` takes the process's crypto provider. Whoever installed one before keeps it.
fn install_crypto() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback());
    is_loopback || host == "localhost"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn clients_are_kept_up_to_a_bound() {
        let clients = Clients::default();
        let address = url("http://127.0.0.1:1/v1");
        for connect_ms in 0..CLIENTS_MAX as u64 * 2 {
            clients.get(&address, connect_ms).unwrap();
            clients.get(&address, connect_ms).unwrap();
            let made = clients.made.lock().unwrap().len();
            assert_eq!(made, CLIENTS_MAX.min(connect_ms as usize + 1));
        }
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        for text in ["http://localhost:1", "http://127.0.0.1", "http://127.9.9.9", "http://[::1]:2"]
        {
            assert!(is_local(&url(text)), "{text}");
        }
        for text in ["http://10.0.0.1", "http://example.com", "http://[2001:db8::1]"] {
            assert!(!is_local(&url(text)), "{text}");
        }
    }

    /// A handshake that nobody answers counts as connecting.
    #[tokio::test]
    async fn connecting_has_a_limit() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = url(&format!("https://{}", listener.local_addr().unwrap()));
        install_crypto();
        let client = Client::builder()
            .tls_certs_only([])
            .connect_timeout(Duration::from_millis(30))
            .build()
            .unwrap();
        let error = client.get(address).send().await.unwrap_err();
        assert!(error.is_timeout() && error.is_connect(), "{error:?}");
    }
}

//! Ports for servers that are killed and started again on the same number.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};

/// Below the range from which the system takes ports for outgoing connections: while a server is
/// down, none of them may take its number.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;
const TRIES: u32 = 200;

static TAKEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);

/// An address of this machine that is free now and that no other test of this program was given.
///
/// # Errors
/// When none is found.
pub fn free_address() -> Result<SocketAddr> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = taken.get_or_insert_default();
    for _ in 0..TRIES {
        let random = getrandom::u64().ok().context("no random numbers")?;
        let port = FIRST + u16::try_from(random % u64::from(COUNT))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if !taken.contains(&port) && TcpListener::bind(address).is_ok() {
            taken.insert(port);
            return Ok(address);
        }
    }
    bail!("no free port in {TRIES} tries")
}

//! Stored events with their payloads put back.

use stepwell_core::codec::{EVENT_SCHEMA, attach, decode, encode, is_whole};
use stepwell_ports::{Store, StoreError, StoredEvent};

/// Puts the payloads of an event back. An event that cannot be decoded stays as it is stored, and so
/// does a payload that is missing: whoever asked for the history is shown what there is.
///
/// # Errors
/// The store's.
pub(crate) async fn whole(
    store: &dyn Store,
    mut event: StoredEvent,
) -> Result<StoredEvent, StoreError> {
    let Ok(mut body) = decode(&event.kind, event.schema, &event.body) else { return Ok(event) };
    if is_whole(&mut body) {
        return Ok(event);
    }
    let mut addresses = Vec::new();
    attach(&mut body, &mut |address| {
        addresses.push(address.to_owned());
        None
    });
    let mut payloads = Vec::with_capacity(addresses.len());
    for address in addresses {
        let payload = store.blob(&address).await?.and_then(|it| String::from_utf8(it).ok());
        payloads.push((address, payload));
    }
    attach(&mut body, &mut |address| {
        payloads.iter().find(|(it, _)| it == address).and_then(|(_, payload)| payload.clone())
    });
    if let Ok(text) = encode(&body) {
        event.body = text;
        event.schema = EVENT_SCHEMA;
    }
    Ok(event)
}

//! Digests of requests that create, to notice a client key that is used for something else.

use prost::Message as _;
use stepwell_proto::v1;

/// BLAKE3 of everything in the request but its key, 64 hex digits. It holds no map, so its encoding
/// is always the same.
pub(super) fn of_fork(request: &v1::ForkSessionRequest) -> String {
    let keyless = v1::ForkSessionRequest { client_key: String::new(), ..request.clone() };
    blake3::hash(&keyless.encode_to_vec()).to_hex().as_str().to_owned()
}

/// BLAKE3 of everything in the request but its key, 64 hex digits. Each part goes in with its
/// length, so that no two requests look the same; labels in order, for a map has none.
pub(super) fn of_request(request: &v1::CreateSessionRequest) -> String {
    let v1::CreateSessionRequest {
        task,
        agent,
        agent_version,
        agent_definition,
        title,
        labels,
        client_key: _,
        submitted_by,
        workspace,
        paused,
    } = request;
    let mut hasher = blake3::Hasher::new();
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(task.as_bytes());
    part(agent.as_bytes());
    part(&agent_version.to_le_bytes());
    part(agent_definition.as_bytes());
    part(title.as_bytes());
    part(submitted_by.as_bytes());
    part(workspace.as_bytes());
    // Left out when not set, so that older keys keep their digest.
    if *paused {
        part(b"paused");
    }
    let mut labels: Vec<_> = labels.iter().collect();
    labels.sort_unstable();
    for (key, value) in labels {
        part(key.as_bytes());
        part(value.as_bytes());
    }
    hasher.finalize().to_hex().as_str().to_owned()
}

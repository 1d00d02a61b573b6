//! A session to write, and helpers.

use stepwell_archive::{ArchiveError, Form, Header, Item, Limits, Reader, Writer};
use stepwell_core::codec::{self, EVENT_SCHEMA};
use stepwell_core::event::{MessageReceived, ToolFinished, ToolOutcome};
use stepwell_core::{CallId, EventBody, Seq, SessionId, TimestampMs};
use stepwell_ports::StoredEvent;

pub(crate) type Blobs = Vec<(String, Vec<u8>)>;

pub(crate) fn session_id() -> SessionId {
    SessionId::from_random([9; 16])
}

pub(crate) fn header() -> Header {
    Header::new(session_id(), "0.1.0", 1_800_000_000_000)
}

/// An event in its stored form.
pub(crate) fn stored(seq: u64, mut body: EventBody) -> (StoredEvent, Blobs) {
    let mut blobs = Vec::new();
    codec::detach(&mut body, &mut |address, it| {
        blobs.push((address.to_owned(), it.as_bytes().to_vec()));
    });
    let event = StoredEvent {
        seq: Seq(seq),
        time: TimestampMs(1_700_000_000_000 + seq),
        cause: Seq(seq),
        actor: "person:ada\nlovelace".into(),
        kind: body.kind().as_str().into(),
        schema: EVENT_SCHEMA,
        body: codec::encode(&body).unwrap(),
    };
    (event, blobs)
}

pub(crate) fn message(text: &str) -> EventBody {
    EventBody::MessageReceived(MessageReceived {
        content: text.into(),
        answers: None,
        client_key: None,
    })
}

pub(crate) fn finished(output: &str, full: Option<&str>) -> EventBody {
    EventBody::ToolFinished(ToolFinished {
        call_id: CallId { step: 1, index: 1 },
        attempt: 1,
        outcome: ToolOutcome::Ok,
        output: output.into(),
        full_output: full.map(codec::blob_ref),
        late: false,
        duration_ms: 4,
    })
}

/// Events with small and large texts, odd characters, and a whole output beside its event.
pub(crate) fn session() -> Vec<(StoredEvent, Blobs)> {
    let full = "z".repeat(3_000);
    let mut events = vec![
        stored(1, message("Look: \u{202e}\0\u{7} ü 🦀 \"quoted\"\\ \n end")),
        stored(2, message(&"many words. ".repeat(3_000))),
        stored(3, finished(&"\u{1}\u{2}".repeat(10_000), None)),
        stored(4, finished("short", Some(&full))),
        stored(5, message("")),
    ];
    let (_, blobs) = events.get_mut(3).unwrap();
    blobs.push((codec::blob_ref(&full).blob, full.into_bytes()));
    events
}

pub(crate) fn write(form: Form, header: &Header, events: &[(StoredEvent, Blobs)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), form, header).unwrap();
    for (event, blobs) in events {
        writer.event(event, blobs, &[]).unwrap();
    }
    writer.finish(None).unwrap().0
}

pub(crate) fn read(file: &[u8]) -> Result<Vec<Item>, ArchiveError> {
    read_with(file, Limits::default())
}

pub(crate) fn read_with(file: &[u8], limits: Limits) -> Result<Vec<Item>, ArchiveError> {
    let mut reader = Reader::open(file, limits)?;
    let mut items = Vec::new();
    while let Some(item) = reader.next_item()? {
        items.push(item);
    }
    assert!(reader.end().is_some());
    Ok(items)
}

/// Lines of a plain file without the seal, changed, sealed again: damage that no seal finds.
pub(crate) fn resealed(change: impl FnOnce(&mut Vec<String>)) -> Vec<u8> {
    let file = String::from_utf8(write(Form::Plain, &header(), &session())).unwrap();
    let mut lines: Vec<String> = file.lines().map(str::to_owned).collect();
    lines.pop();
    change(&mut lines);
    seal(&lines)
}

pub(crate) fn seal(lines: &[String]) -> Vec<u8> {
    let mut text = lines.join("\n");
    text.push('\n');
    let hash = blake3_hex(text.as_bytes());
    let seal = format!("{{\"line\":\"seal\",\"blake3\":\"{hash}\"}}\n");
    text.push_str(&seal);
    text.into_bytes()
}

pub(crate) fn blake3_hex(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

//! What was written comes back byte for byte.

use stepwell_archive::{Form, Limits, Reader, WriteError, Writer};
use stepwell_core::codec;
use stepwell_ports::StoredEvent;

use crate::world::{finished, header, read, session, stored, write};

#[test]
fn a_session_comes_back_byte_for_byte_in_both_forms() {
    let events = session();
    for form in [Form::Plain, Form::Packed] {
        let file = write(form, &header(), &events);
        let items = read(&file).unwrap();
        assert_eq!(items.len(), events.len());
        for (item, (event, blobs)) in items.iter().zip(&events) {
            assert_eq!(item.stored, *event, "{form:?}");
            assert_eq!(item.blobs, *blobs);
            let mut body = item.event.body.clone();
            assert!(codec::is_whole(&mut body));
        }
    }
}

#[test]
fn the_same_session_is_the_same_file() {
    for form in [Form::Plain, Form::Packed] {
        assert_eq!(write(form, &header(), &session()), write(form, &header(), &session()));
    }
}

#[test]
fn a_session_without_events_is_a_file_too() {
    assert_eq!(read(&write(Form::Packed, &header(), &[])).unwrap(), []);
}

#[test]
fn a_standard_tool_unpacks_the_file() {
    let packed = write(Form::Packed, &header(), &session());
    let unpacked = zstd::decode_all(packed.as_slice()).unwrap();
    assert_eq!(unpacked, write(Form::Plain, &header(), &session()));
}

#[test]
fn a_fixture_may_leave_out_whole_outputs_and_nothing_else() {
    let mut header = header();
    let (event, _) = stored(1, finished("short", Some("long")));
    let mut writer = Writer::new(Vec::new(), Form::Plain, &header).unwrap();
    let error = writer.event(&event, &[], &[]).unwrap_err();
    assert!(matches!(error, WriteError::BadBlob { .. }), "{error}");

    header.fixture = true;
    let mut writer = Writer::new(Vec::new(), Form::Plain, &header).unwrap();
    writer.event(&event, &[], &[]).unwrap();
    let (file, _) = writer.finish(None).unwrap();
    let items = read(&file).unwrap();
    assert_eq!(items.first().unwrap().left_out, [codec::blob_ref("long").blob]);

    let (event, _) = stored(1, finished(&"x".repeat(20_000), None));
    let mut writer = Writer::new(Vec::new(), Form::Plain, &header).unwrap();
    assert!(writer.event(&event, &[], &[]).is_err(), "a text is needed");
}

#[test]
fn a_reader_tells_what_was_removed_and_what_the_head_was() {
    let mut header = header();
    header.redacted = true;
    header.events = Some(1);
    let (event, blobs) = stored(1, finished("short", None));
    let mut writer = Writer::new(Vec::new(), Form::Packed, &header).unwrap();
    writer.event(&event, &blobs, &["/output".into()]).unwrap();
    let (file, written) = writer.finish(Some("ab".into())).unwrap();
    let mut reader = Reader::open(file.as_slice(), Limits::default()).unwrap();
    assert_eq!(reader.header(), &header);
    let item = reader.next_item().unwrap().unwrap();
    assert_eq!(item.redacted, ["/output"]);
    assert_eq!(reader.next_item().unwrap(), None);
    assert_eq!(reader.next_item().unwrap(), None, "the end stays the end");
    assert_eq!(reader.end().unwrap(), &written);
    assert_eq!(written.original_head.as_deref(), Some("ab"));
    assert_eq!(written.head, item.chain);
}

#[test]
fn a_history_with_a_gap_is_not_written() {
    let mut writer = Writer::new(Vec::new(), Form::Plain, &header()).unwrap();
    let (event, blobs) = stored(2, finished("x", None));
    assert!(matches!(writer.event(&event, &blobs, &[]), Err(WriteError::Gap { .. })));
}

/// A file that every reader would call damaged is not written.
#[test]
fn an_event_that_cannot_be_read_is_not_written() {
    let damage: [fn(&mut StoredEvent); 5] = [
        |it| it.body = "{".into(),
        |it| it.body = "{}".into(),
        |it| it.kind = "tool_rewritten".into(),
        |it| it.schema = u16::MAX,
        |it| it.actor = "nobody".into(),
    ];
    for damage in damage {
        let (mut event, blobs) = stored(1, finished("x", None));
        damage(&mut event);
        let mut writer = Writer::new(Vec::new(), Form::Plain, &header()).unwrap();
        let error = writer.event(&event, &blobs, &[]).unwrap_err().to_string();
        assert!(error.starts_with("event 1 cannot be exported: "), "{error}");
    }
    let (mut event, blobs) = stored(1, finished(&"x".repeat(20_000), None));
    event.body = event.body.replace("20000", "20001");
    let mut writer = Writer::new(Vec::new(), Form::Plain, &header()).unwrap();
    let error = writer.event(&event, &blobs, &[]).unwrap_err().to_string();
    assert!(error.contains("has another size"), "{error}");
}

/// Files that were written once are read for ever; one that has to change is a new version.
#[test]
fn files_of_version_1_are_read_for_ever() {
    let plain = include_bytes!("../golden/v1.stepwell.jsonl");
    let packed = include_bytes!("../golden/v1.stepwell");
    let mut events = session();
    events.truncate(2);
    // The files hold events as schema 1 wrote them.
    for (event, _) in &mut events {
        event.schema = 1;
    }
    for file in [plain.as_slice(), packed.as_slice()] {
        let items = read(file).unwrap();
        assert_eq!(items.len(), 2);
        for (item, (event, blobs)) in items.iter().zip(&events) {
            assert_eq!((&item.stored, &item.blobs), (event, blobs));
        }
    }
    let now = write(Form::Plain, &header(), &events);
    assert!(now == plain, "the format is written otherwise than in version 1");
}

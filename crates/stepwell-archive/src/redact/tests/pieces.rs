//! Secrets that a cut went through.

use stepwell_core::text::{prefix, shorten, title_of};

use super::*;

const KEY: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";

/// Pieces of the key that say too much of it.
const PIECE_BYTES: usize = 5;

#[track_caller]
fn holds_no_piece(text: &str, of: &str) {
    for at in 0..=of.len() - PIECE_BYTES {
        let piece = &of[at..at + PIECE_BYTES];
        assert!(!text.contains(piece), "{piece} in {text}");
    }
}

fn output_of(done: &Redacted) -> String {
    let body = codec::decode("tool_finished", EVENT_SCHEMA, &done.event.body).unwrap();
    let EventBody::ToolFinished(it) = body else { panic!("another event") };
    it.output.whole().unwrap().to_owned()
}

fn shortened(shown: &str, whole: &str) -> Redacted {
    let mut body = finished(shown);
    if let EventBody::ToolFinished(it) = &mut body {
        it.full_output = Some(codec::blob_ref(whole));
    }
    let blobs = vec![(codec::blob_ref(whole).blob, whole.as_bytes().to_vec())];
    redact(&BUILT_IN_RULES, stored(&body), blobs)
}

/// As tools and the engine shorten it: the beginning, what was left out, the end, perhaps with words of
/// the tool around it.
fn ways_to_shorten(whole: &str, bytes: usize) -> Vec<String> {
    let short = shorten(whole, bytes);
    let (head, tail) = (&whole[..bytes / 2], &whole[whole.len() - bytes / 2..]);
    let left_out = whole.len() - bytes / 2 * 2;
    vec![
        format!("exit code 0 after 1.9 s; 9,000 bytes of output\n\n{short}\nthe end"),
        short,
        format!("exit code 0\n\n{head}\n… {left_out} bytes left out …\n{tail}"),
        format!("{head}\n[cut by somebody else]\n{tail}"),
        head.to_owned(),
        tail.to_owned(),
    ]
}

/// Wherever the cuts are, also where both pieces together are the whole key.
#[test]
fn a_secret_across_a_cut_of_an_output_goes_to_the_cut() {
    let lines = |count: usize| {
        let lines: Vec<_> = (0..count).map(|it| format!("line {it}\n")).collect();
        lines.concat()
    };
    for before in [30, 40] {
        let whole = format!("{}{KEY}\n{}", lines(before), lines(60));
        let key_at = whole.find(KEY).unwrap();
        let mut cut = 0;
        for at in key_at..=key_at + KEY.len() {
            for shown in ways_to_shorten(&whole, at * 2) {
                let done = shortened(&shown, &whole);
                let output = output_of(&done);
                holds_no_piece(&output, KEY);
                assert!(output.contains("line 1\n") || !shown.contains("line 1\n"), "{output}");
                assert_eq!(done.left, [""; 0]);
                cut += usize::from(shown.contains(KEY) != output.contains("api_key"));
            }
        }
        assert!(cut > 50, "{cut}");
    }
}

#[test]
fn a_piece_is_named_by_the_whole_secret() {
    let whole = format!("{}\n{KEY}\n{}", "x".repeat(500), "y".repeat(2_000));
    let shown = format!("{}\n[… 2000 bytes left out …]\nyyyy", prefix(&whole, 520));
    let output = output_of(&shortened(&shown, &whole));
    assert!(output.contains(&marker("api_key", KEY.as_bytes())), "{output}");
}

/// A key that only its name makes one is found behind the cut, too.
#[test]
fn what_a_rule_knows_by_the_words_before_it_goes_without_them() {
    let whole =
        format!("{}password: correct-horse-battery\n{}", "a\n".repeat(300), "b\n".repeat(99));
    for back in 0..22 {
        let tail = whole.find("correct").unwrap() - 4 + back;
        let shown = format!("a\na\n\n… 596 bytes left out …\n{}", &whole[tail..]);
        holds_no_piece(&output_of(&shortened(&shown, &whole)), "correct-horse-battery");
    }
}

fn created_with(task: &str, title: &str) -> EventBody {
    let EventBody::SessionCreated(mut it) = created() else { panic!("another event") };
    (it.task, it.title) = (task.into(), title.into());
    it.into()
}

fn title_in(done: &Redacted) -> String {
    let body = codec::decode("session_created", EVENT_SCHEMA, &done.event.body).unwrap();
    let EventBody::SessionCreated(it) = body else { panic!("another event") };
    it.title
}

#[test]
fn a_title_keeps_no_beginning_of_a_secret_of_the_task() {
    for before in 30..80 {
        let task = format!("\n  {} {KEY} and go on", "w".repeat(before));
        let title = title_of(&task);
        let done = run("", &created_with(&task, &title));
        holds_no_piece(&title_in(&done), KEY);
    }
    // In the title of somebody else's making too, as long as it was cut where Stepwell cuts.
    let done = run("", &created_with("Look.", &format!("Look with {}…", &KEY[..20])));
    holds_no_piece(&title_in(&done), KEY);
}

/// Nobody has the whole of a line that a tool cut.
#[test]
fn the_beginning_of_a_secret_in_front_of_a_cut_goes() {
    for (shown, secret) in [
        ("a.rs:1:let key = \"ghp_abcdefghijklm…\n", "ghp_abcdefghijklm"),
        ("     1\tAKIAABCDEFGH… 5,000 bytes left out …\n", "AKIAABCDEFGH"),
        ("password=hunter2…", "hunter2"),
        ("token: eyJhbGciOi… 9 bytes left out …", "eyJhbGciOi"),
        ("key\nghp_abcdefgh\n[… 12 bytes left out …]\nmore", "ghp_abcdefgh"),
    ] {
        let done = run("", &finished(shown));
        assert!(!done.event.body.contains(secret), "{}", done.event.body);
        assert_eq!(done.left, [""; 0]);
    }
    for shown in ["and so on…", "the token… is", "a secret: …", "see https://a.org/b…", "pk…"]
    {
        assert_eq!(run("", &finished(shown)).pointers, [""; 0], "{shown}");
    }
}

/// Of a payload that a fixture leaves out the preview is a piece, of which nobody has the rest.
#[test]
fn a_preview_of_what_is_left_out_goes() {
    let whole = format!("{}{KEY}", "z ".repeat(110));
    let mut body = finished("short");
    if let EventBody::ToolFinished(it) = &mut body {
        it.full_output = Some(codec::blob_ref(&whole));
    }
    let rules = Rules::parse("").unwrap();
    let done = redact(&rules, stored(&body), Vec::new());
    holds_no_piece(&done.event.body, KEY);
    // With the payload at hand the preview is that of the redacted one.
    let blobs = vec![(codec::blob_ref(&whole).blob, whole.into_bytes())];
    let done = redact(&rules, stored(&body), blobs);
    holds_no_piece(&done.event.body, KEY);
    assert!(done.event.body.contains("z z [redacted api_key bytes:40"), "{}", done.event.body);
}

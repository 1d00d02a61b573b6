//! What is not finished yet: tokens of a model, output of tools, as they come.

use stepwell_proto::v1::LiveChunk;

use super::visible::{Care, block};
use crate::out::{Paint, Tone};

/// Where a line of live text begins.
const INDENT: &str = "          ";

/// Who is speaking.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Voice {
    kind: String,
    step: u32,
    call_id: String,
}

/// Puts live pieces of one session between the lines of its events.
#[derive(Debug)]
pub(crate) struct Ticker {
    voice: Option<Voice>,
    is_at_line_start: bool,
    paint: Paint,
}

impl Ticker {
    /// Nobody speaks yet.
    pub(crate) fn new(paint: Paint) -> Self {
        Self { voice: None, is_at_line_start: true, paint }
    }

    /// What to write for the next piece. `tool` is the tool of the call it is about.
    pub(crate) fn chunk(&mut self, chunk: &LiveChunk, tool: Option<&str>) -> String {
        if chunk.kind == "reset" {
            let mut text = self.break_off();
            let note = format!("{INDENT}(that attempt broke off; what it said is void)\n");
            text.push_str(&self.paint.tone(Tone::Bad, note.trim_end_matches('\n')));
            text.push('\n');
            return text;
        }
        if chunk.text.is_empty() {
            return String::new();
        }
        let voice =
            Voice { kind: chunk.kind.clone(), step: chunk.step, call_id: chunk.call_id.clone() };
        let mut text = String::new();
        if self.voice.as_ref() != Some(&voice) {
            text.push_str(&self.break_off());
            text.push_str(&self.paint.faint(heading(&voice, tool)));
            text.push('\n');
            self.voice = Some(voice);
        }
        let tone = if chunk.kind == "content" { Tone::Plain } else { Tone::Faint };
        for line in block(&chunk.text, Care::Prose, Paint::NONE).split_inclusive('\n') {
            if self.is_at_line_start {
                text.push_str(INDENT);
            }
            let words = line.strip_suffix('\n');
            let shown = words.unwrap_or(line);
            if !shown.is_empty() {
                text.push_str(&self.paint.tone(tone, shown));
            }
            self.is_at_line_start = words.is_some();
            if self.is_at_line_start {
                text.push('\n');
            }
        }
        text
    }

    /// What to write before something else is written: the end of an open line.
    pub(crate) fn break_off(&mut self) -> String {
        self.voice = None;
        if self.is_at_line_start {
            return String::new();
        }
        self.is_at_line_start = true;
        "\n".into()
    }

    /// Whether the cursor stands at the beginning of a line.
    pub(crate) fn is_at_line_start(&self) -> bool {
        self.is_at_line_start
    }
}

fn heading(voice: &Voice, tool: Option<&str>) -> String {
    let words = match (voice.kind.as_str(), tool) {
        ("content", _) => format!("step {} says", voice.step),
        ("reasoning", _) => format!("step {} thinks", voice.step),
        ("output", Some(tool)) => format!("{tool} {} prints", voice.call_id),
        ("output", None) => format!("call {} prints", voice.call_id),
        (kind, _) => format!("{kind} of step {}", voice.step),
    };
    format!("{INDENT}{}", block(&words, Care::Prose, Paint::NONE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(kind: &str, text: &str, call_id: &str) -> LiveChunk {
        LiveChunk {
            kind: kind.into(),
            text: text.into(),
            step: 3,
            attempt: 1,
            call_id: call_id.into(),
        }
    }

    fn written(chunks: &[LiveChunk]) -> String {
        let mut ticker = Ticker::new(Paint::NONE);
        let mut text: String = chunks.iter().map(|it| ticker.chunk(it, Some("shell"))).collect();
        text.push_str(&ticker.break_off());
        text.replace(INDENT, "> ")
    }

    #[test]
    fn tokens_run_on_in_one_line() {
        assert_eq!(
            written(&[chunk("content", "I wi", ""), chunk("content", "ll\nlook", "")]),
            "> step 3 says\n> I will\n> look\n"
        );
    }

    #[test]
    fn a_change_of_voice_begins_a_new_line() {
        assert_eq!(
            written(&[
                chunk("reasoning", "hm", ""),
                chunk("content", "ok", ""),
                chunk("output", "1\n", "3.1"),
                chunk("output", "2\n", "3.2"),
            ]),
            "> step 3 thinks\n> hm\n> step 3 says\n> ok\n> shell 3.1 prints\n> 1\n> shell 3.2 prints\n> 2\n"
        );
    }

    #[test]
    fn a_broken_attempt_is_called_void() {
        assert_eq!(
            written(&[chunk("content", "wro", ""), chunk("reset", "", "")]),
            "> step 3 says\n> wro\n> (that attempt broke off; what it said is void)\n"
        );
    }

    #[test]
    fn live_text_cannot_move_the_cursor() {
        assert_eq!(
            written(&[chunk("output", "\u{1b}[2Jx\n", "3.1")]),
            "> shell 3.1 prints\n> <U+001B>[2Jx\n"
        );
    }
}

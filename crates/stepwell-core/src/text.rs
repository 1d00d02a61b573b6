//! Text that may be large: whole, or left in the blob table with its address and a preview.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json::serialize_text;

/// Payloads above this many bytes go to the blob table.
pub const INLINE_BYTES_MAX: usize = 16 * 1024;

/// How much of a detached payload stays readable in the event, in bytes.
pub const PREVIEW_BYTES_MAX: usize = 256;

/// Address of a payload in the blob table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// BLAKE3 of the payload's bytes, 64 hex digits.
    pub blob: String,
    /// Size of the payload in bytes, before compression.
    pub bytes: u64,
    /// The first characters of the payload.
    pub preview: String,
}

/// A text in an event. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub enum Text {
    /// The text is here.
    Whole(Arc<str>),
    /// The text is in the blob table; [`crate::apply()`] refuses events that are still so.
    Detached(BlobRef),
}

impl Text {
    /// The text, if it is here.
    pub fn whole(&self) -> Option<&str> {
        match self {
            Self::Whole(text) => Some(text),
            Self::Detached(_) => None,
        }
    }

    /// What can be shown without reading a blob.
    pub fn preview(&self) -> &str {
        match self {
            Self::Whole(text) => text,
            Self::Detached(blob) => &blob.preview,
        }
    }

    /// Size of the whole text in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Whole(text) => text.len() as u64,
            Self::Detached(blob) => blob.bytes,
        }
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::Whole(Arc::from(""))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::Whole(Arc::from(text))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::Whole(Arc::from(text))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(text) => text.fmt(f),
            Self::Detached(blob) => blob.fmt(f),
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(text) => serialize_text(text, serializer),
            Self::Detached(blob) => {
                let mut map = serializer.serialize_map(Some(3))?;
                map.serialize_entry("blob", &blob.blob)?;
                map.serialize_entry("bytes", &blob.bytes)?;
                map.serialize_entry("preview", &blob.preview)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a blob reference")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text::from(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Text, A::Error> {
                let map = de::value::MapAccessDeserializer::new(map);
                BlobRef::deserialize(map).map(Text::Detached)
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// The longest prefix of `text` with at most `bytes_max` bytes that ends between characters.
pub fn prefix(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The longest suffix of `text` with at most `bytes_max` bytes that begins between characters.
pub fn suffix(text: &str, bytes_max: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
}

/// Shortens `text` to about `bytes_max` bytes, keeps head and tail, and says how much is left out.
pub fn shorten(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_string();
    }
    let head = prefix(text, bytes_max / 2);
    let tail = suffix(text, bytes_max / 2);
    let left_out = text.len() - head.len() - tail.len();
    alloc::format!("{head}\n[… {left_out} bytes left out …]\n{tail}")
}

/// Length of a title that is taken from the task, in characters.
const TITLE_CHARS_MAX: usize = 80;

/// The title of a session to which nobody gave one: the first line of the task that says something.
pub fn title_of(task: &str) -> String {
    let line = task.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("(no task)");
    let mut title: String = line.chars().take(TITLE_CHARS_MAX).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortening_cuts_between_characters_and_says_how_much() {
        let text = "ä".repeat(100);
        let short = shorten(&text, 21);
        assert!(short.starts_with("ääääää"[..10].trim_end_matches('\0')));
        assert!(short.contains("180 bytes left out"), "{short}");
    }

    #[test]
    fn a_detached_text_survives_json() {
        let blob = BlobRef { blob: "ab".into(), bytes: 9, preview: "x".into() };
        for text in [Text::from("plain"), Text::Detached(blob)] {
            let json = serde_json::to_string(&text).unwrap();
            assert_eq!(serde_json::from_str::<Text>(&json).unwrap(), text);
        }
    }
}

//! Events are facts: their names are in the past tense.

use super::rust::{RustFile, Token, item_end};
use super::{Finding, Tree};

/// Where event types live.
const CORE: &str = "crates/stepwell-core/src/";

/// Past tense without `-ed`.
const IRREGULAR: &[&str] = &["ToolLost", "HandedOff"];

/// Checks the variants of every enum in the core that is named like an event, whether it is
/// written out or made by `events! { Name, ..; }`.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let core: Vec<&RustFile> = tree.rust.iter().filter(|it| it.path.starts_with(CORE)).collect();
    let names: Vec<(&RustFile, &Token)> = core
        .iter()
        .flat_map(|file| event_names(file).into_iter().map(move |it| (*file, it)))
        .collect();
    if let (Some(file), true) = (core.first(), names.is_empty()) {
        let message = "no event is found in this crate, so none is checked: teach \
                       xtask/src/tidy/events.rs how they are written now";
        return vec![Finding::new(&file.path, 1, message)];
    }
    names.into_iter().filter_map(|(file, name)| check_name(file, name)).collect()
}

fn check_name(file: &RustFile, name: &Token) -> Option<Finding> {
    let text = &name.text;
    if text.ends_with("ed") || IRREGULAR.contains(&text.as_str()) {
        return None;
    }
    let message = format!(
        "event `{text}` is not in the past tense: name what happened (`..ed`), or add it to \
         IRREGULAR in xtask/src/tidy/events.rs"
    );
    Some(Finding::new(&file.path, name.line, message))
}

fn event_names(file: &RustFile) -> Vec<&Token> {
    let mut names = Vec::new();
    for (index, pair) in file.tokens.windows(2).enumerate() {
        let [first, second] = pair else { continue };
        let separator = match (first.text.as_str(), second.text.as_str()) {
            ("enum", name) if is_event_enum(name) => ",",
            ("events", "!") => ";",
            _ => continue,
        };
        if !file.is_test_line(first.line) {
            let end = item_end(&file.tokens, index);
            let body = file.tokens.get(index..=end).unwrap_or_default();
            names.extend(first_words(body, separator));
        }
    }
    names
}

fn is_event_enum(name: &str) -> bool {
    name.ends_with("Event") || matches!(name, "EventBody" | "EventKind" | "EventType")
}

/// The first word of each entry between the outermost braces. Attributes are nested, and in a
/// macro's pattern (`$name`) so are all words, so neither counts.
fn first_words<'a>(tokens: &'a [Token], separator: &str) -> Vec<&'a Token> {
    let mut names = Vec::new();
    let mut depth = 0_usize;
    let mut expects_name = false;
    for token in tokens {
        match token.text.as_str() {
            "(" | "[" | "{" => {
                depth += 1;
                expects_name |= depth == 1;
            }
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            it if depth == 1 && it == separator => expects_name = true,
            _ if depth == 1 && expects_name && token.is_word() => {
                names.push(token);
                expects_name = false;
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::assert_findings;
    use super::*;

    const PATH: &str = "crates/stepwell-core/src/event.rs";

    #[track_caller]
    fn check_text(path: &str, text: &str, expected: &[&str]) {
        assert_findings(&check(&Tree::of(&[(path, text)])), expected);
    }

    #[test]
    fn facts_are_fine() {
        let text = "pub enum Event {\n    /// A doc, with a comma.\n    #[serde(rename = \"x\")]\n    \
                    SessionCreated { agent: Agent, at: u64 },\n    ToolLost(u8, u8),\n    \
                    HandedOff,\n}\n";
        check_text(PATH, text, &[]);
    }

    #[test]
    fn an_order_is_no_fact() {
        let text = "enum DecisionEvent {\n    ModelRequested,\n    CallTool { call: Id },\n}\n";
        check_text(PATH, text, &["crates/stepwell-core/src/event.rs:3: event `CallTool`"]);
        let path = "crates/stepwell-core/src/event/input.rs";
        let text = "enum InputEvent { Fire }";
        check_text(path, text, &["crates/stepwell-core/src/event/input.rs:1: event `Fire`"]);
    }

    #[test]
    fn other_enums_and_other_files_are_free() {
        check_text(PATH, "enum Event { Fired }\nenum Outcome { Ok, Error }", &[]);
        check_text("crates/stepwell-server/src/event.rs", "enum Event { Fire }", &[]);
    }

    #[test]
    fn events_made_by_the_macro_are_checked() {
        let text = "macro_rules! events { ($( $name:ident; )*) => {\n    \
                    pub enum EventBody { $( $(#[$doc])* $name($name), )* }\n} }\n\
                    events! {\n    #[doc = \"x\"]\n    TimerFired, \"timer_fired\", Input;\n    \
                    AskModel, \"ask_model\", Decision;\n}\n";
        check_text(PATH, text, &["crates/stepwell-core/src/event.rs:7: event `AskModel`"]);
    }

    #[test]
    fn a_core_in_which_no_event_is_found_is_itself_a_finding() {
        check_text(PATH, "struct A;", &["crates/stepwell-core/src/event.rs:1: no event is found"]);
    }
}

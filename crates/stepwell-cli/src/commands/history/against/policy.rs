//! Who answers in place of the people of the recorded session: approvals and questions.

use stepwell_core::agent::ASK_USER;
use stepwell_core::{Actor, JsonText, Text};

use super::record::{Key, Recordings, Word};

/// Name of whoever answers where the record has nothing.
pub(super) const STAND_IN: &str = "replay";

/// The answer to a question that nobody was asked.
const NO_ANSWER: &str =
    "(No answer to this question is recorded. Decide it yourself, or go on without.)";

/// What is said to a call that asks whether it may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ruling {
    /// It may run, perhaps with the arguments that a person put in place of the model's.
    Approve { arguments: Option<JsonText>, by: Actor },
    /// It may not, as in the record.
    Deny { reason: String, by: Actor },
    /// Nobody decides, as in the record: its time is to pass.
    Lapse { message: String },
    /// Nobody was asked about this action, and no result of it is recorded.
    Unrecorded { reason: String },
}

/// Rules on an action that asks. The recorded word on the same action comes first, because the model
/// saw what came of it; a recorded result needs no word, because nothing runs.
pub(super) fn rule(recordings: &Recordings, key: &Key, nth: usize) -> Ruling {
    match recordings.word(key, nth) {
        Some(Word::Approved { arguments, by }) => {
            Ruling::Approve { arguments: arguments.clone(), by: by.clone() }
        }
        Some(Word::Denied { reason, by }) => {
            Ruling::Deny { reason: reason.clone(), by: by.clone() }
        }
        Some(Word::Lapsed { message }) => Ruling::Lapse { message: message.clone() },
        None if recordings.result(key, nth).is_some() => {
            Ruling::Approve { arguments: None, by: stand_in() }
        }
        None => Ruling::Unrecorded {
            reason: "nobody was asked about this action in the recorded session, and no result of \
                     it is recorded"
                .to_owned(),
        },
    }
}

/// The recorded answer to the same question; `None` when it was not asked.
pub(super) fn answer(recordings: &Recordings, arguments: &str, nth: usize) -> Option<Text> {
    recordings.result(&Key::of(ASK_USER, arguments), nth).map(|it| it.output.clone())
}

/// What is answered to a question that is not in the record.
pub(super) fn no_answer() -> Text {
    Text::from(NO_ANSWER)
}

/// Whoever answers where the record has nothing.
pub(super) fn stand_in() -> Actor {
    Actor::Person(STAND_IN.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::recordings;
    use super::*;

    #[test]
    fn the_recorded_word_comes_before_a_recorded_result() {
        let ada = || Actor::Person("ada".to_owned());
        let edited = JsonText::parse(r#"{"to":2}"#).unwrap();
        let yes = Some(Word::Approved { arguments: Some(edited.clone()), by: ada() });
        let no = Some(Word::Denied { reason: "no".into(), by: ada() });
        let approved = Ruling::Approve { arguments: Some(edited), by: ada() };
        let denied = Ruling::Deny { reason: "no".into(), by: ada() };
        let late = Some(Word::Lapsed { message: "too late".into() });
        let lapses = Ruling::Lapse { message: "too late".into() };
        let served = Ruling::Approve { arguments: None, by: stand_in() };
        for (slots, arguments, nth, ruling) in [
            (vec![(None, Some("paid"))], r#"{"to":1}"#, 0, Some(&served)),
            (vec![(None, Some("paid"))], r#"{"to":1}"#, 7, Some(&served)),
            (vec![(None, Some("paid"))], r#"{"to":2}"#, 0, None),
            (vec![(None, None)], r#"{"to":1}"#, 0, None),
            (vec![(yes.clone(), None)], r#"{"to":1.0}"#, 0, Some(&approved)),
            (vec![(no.clone(), None)], r#"{"to":1}"#, 0, Some(&denied)),
            (vec![(no.clone(), None), (yes, None)], r#"{"to":1}"#, 1, Some(&approved)),
            (vec![(no, Some("paid"))], r#"{"to":1}"#, 0, Some(&denied)),
            (vec![(late, None)], r#"{"to":1}"#, 0, Some(&lapses)),
            (vec![], r#"{"to":1}"#, 0, None),
        ] {
            let found = rule(&recordings(&slots), &Key::of("pay", arguments), nth);
            match ruling {
                Some(ruling) => assert_eq!(&found, ruling, "{slots:?} {arguments} {nth}"),
                None => assert!(matches!(found, Ruling::Unrecorded { .. }), "{slots:?} {found:?}"),
            }
        }
    }

    #[test]
    fn a_question_that_was_not_asked_has_no_answer() {
        assert_eq!(answer(&recordings(&[(None, Some("x"))]), r#"{"question":"?"}"#, 0), None);
    }
}

//! The API names fields; whoever types commands knows flags.

/// Fields of requests, and what a person gave in their place.
const GIVEN_AS: [(&str, &str); 29] = [
    ("action_digest", "the action"),
    ("after_seq", "--after"),
    ("agent", "--agent"),
    ("agent_definition", "--agent"),
    ("agent_version", "--agent"),
    ("answers_call_id", "--answers"),
    ("approval_id", "the approval's id"),
    ("arguments", "--arguments"),
    ("at_seq", "--at"),
    ("base_url", "--base-url"),
    ("changes", "the changes"),
    ("client_key", "--key"),
    ("content", "the message"),
    ("decided_by", "--by"),
    ("definition", "the definition"),
    ("depth_max", "--depth"),
    ("forked_by", "--by"),
    ("instructions", "--instructions"),
    ("labels", "--label"),
    ("model", "--model"),
    ("output", "--output"),
    ("reason", "--reason"),
    ("requested_by", "--by"),
    ("sent_by", "--by"),
    ("session_id", "the session's id"),
    ("submitted_by", "--by"),
    ("task", "the task"),
    ("title", "--title"),
    ("workspace", "--workspace"),
];

const NO_AGENT: &str = "no agent is named: give a file or a stored one with --agent FILE|NAME \
                        (stepwell agents lists the stored ones)";

/// The message of a server, said with flags. It begins with the field that it is about, if there is
/// one.
pub(super) fn in_flags(message: &str) -> String {
    let Some((field, problem)) = message.split_once(": ") else { return message.to_owned() };
    if field == "agent" && problem.starts_with("is empty") {
        return NO_AGENT.to_owned();
    }
    let (name, key) = match field.split_once('[') {
        Some((name, key)) => (name, key.split(']').next()),
        None => (field, None),
    };
    let flag = GIVEN_AS.iter().find(|(it, _)| *it == name).map(|(_, flag)| flag);
    let problem =
        problem.replace("and agent_definition are both given", "is given as a name and as a file");
    match (flag, key) {
        // Which label it is stands in the key; which change it is, the fork command knows.
        (Some(flag), Some(key)) if name == "labels" => format!("{flag} {key}: {problem}"),
        (Some(flag), None) => format!("{flag}: {problem}"),
        (_, _) => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_named_by_its_flag() {
        for (said, shown) in [
            ("answers_call_id: \"x\" is no call id: …", "--answers: \"x\" is no call id: …"),
            ("agent_definition: line 1, column 2: x", "--agent: line 1, column 2: x"),
            ("labels[\"team\"]: has an empty name", "--label \"team\": has an empty name"),
            ("agent: is empty: name a stored agent or give agent_definition", NO_AGENT),
            ("session 01J: call 3.1 awaits no answer", "session 01J: call 3.1 awaits no answer"),
            ("there is no session 01J", "there is no session 01J"),
        ] {
            assert_eq!(in_flags(said), shown);
        }
    }

    #[test]
    fn no_field_is_listed_twice() {
        assert!(GIVEN_AS.is_sorted_by(|(a, _), (b, _)| a < b));
    }
}

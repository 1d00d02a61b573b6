//! Text with names in it that are filled in for each request.

use serde_json::to_string;

/// What the names stand for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'a> {
    /// `{{step}}`
    pub(super) step: u32,
    /// `{{session}}`: short, the same for all requests of a session.
    pub(super) session: &'a str,
    /// `{{task}}`: the first message of the user.
    pub(super) task: &'a str,
}

/// A text that was taken apart once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Step,
    Session,
    Task,
}

const NAMES: [(&str, Part); 3] =
    [("{{step}}", Part::Step), ("{{session}}", Part::Session), ("{{task}}", Part::Task)];

impl Template {
    /// Takes `text` apart. Other words in braces stay as they are: they may be code.
    pub(super) fn new(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        let first = |text: &str| {
            NAMES
                .iter()
                .filter_map(|(name, part)| text.find(name).map(|at| (at, name.len(), part.clone())))
                .min_by_key(|(at, ..)| *at)
        };
        while let Some((at, length, part)) = first(rest) {
            let (text, after) = rest.split_at(at);
            if !text.is_empty() {
                parts.push(Part::Text(text.to_owned()));
            }
            parts.push(part);
            rest = after.get(length..).unwrap_or_default();
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Self { parts }
    }

    /// The text for these names.
    pub(super) fn text(&self, names: &Names<'_>) -> String {
        self.fill(names, names.task)
    }

    /// The same inside of a JSON string, where the task must be escaped.
    pub(super) fn json(&self, names: &Names<'_>) -> String {
        // Without a task in it, which is the rule, nothing has to be escaped.
        if !self.parts.contains(&Part::Task) {
            return self.text(names);
        }
        let task = to_string(names.task).unwrap_or_default();
        let task = task.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        self.fill(names, task.unwrap_or_default())
    }

    fn fill(&self, names: &Names<'_>, task: &str) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Step => text.push_str(&names.step.to_string()),
                Part::Session => text.push_str(names.session),
                Part::Task => text.push_str(task),
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names<'_> = Names { step: 7, session: "ab12", task: "say \"hi\"\n" };

    #[test]
    fn names_are_filled_in() {
        let template = Template::new("{{step}}{{step}} of {{session}}: {{task}}.");
        assert_eq!(template.text(&NAMES), "77 of ab12: say \"hi\"\n.");
    }

    #[test]
    fn other_braces_stay() {
        for text in ["", "{{x}}", "{{ step }}", "{{step}", "fn f() {{}}"] {
            assert_eq!(Template::new(text).text(&NAMES), text);
        }
    }

    #[test]
    fn a_task_is_escaped_in_json() {
        let template = Template::new(r#"{"text":"{{task}}","n":{{step}}}"#);
        assert_eq!(template.json(&NAMES), r#"{"text":"say \"hi\"\n","n":7}"#);
    }
}

//! What sessions cost: tokens, times, money, and how well the prefix cache was used.

use serde::Serialize;
use serde_json::Value;
use stepwell_proto::v1;

use crate::out::Paint;
use crate::view::prefix;
use crate::view::table::{Cell, Column, Fit, render};
use crate::view::when;

/// One reply of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the event")]
pub(crate) struct Step {
    step: u64,
    model: String,
    prompt_tokens: u64,
    cached_tokens: u64,
    completion_tokens: u64,
    reasoning_tokens: u64,
    first_token_ms: u64,
    duration_ms: u64,
    /// Tokens that some server had read or written before and that were read again.
    lost_tokens: u64,
    endpoint: String,
    /// Where its prompt left what the server had, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    broke: Option<Value>,
}

impl Step {
    /// Where its prompt broke, in a line; `None` when it did not, or nobody knows.
    pub(crate) fn break_line(&self) -> Option<String> {
        self.broke.as_ref().map(|broke| format!("step {}: {}", self.step, prefix::broke(broke)))
    }

    /// Of a `model_replied` event; `None` for another one.
    pub(crate) fn of(event: &v1::Event) -> Option<Self> {
        if event.r#type != "model_replied" {
            return None;
        }
        let body: Value = serde_json::from_str(&event.body_json).ok()?;
        let number = |pointer: &str| body.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        let endpoint = body.pointer("/endpoint").and_then(Value::as_str);
        Some(Self {
            step: number("/step"),
            model: event.actor.strip_prefix("model:").unwrap_or(&event.actor).to_owned(),
            prompt_tokens: number("/usage/prompt_tokens"),
            cached_tokens: number("/usage/cached_tokens"),
            completion_tokens: number("/usage/completion_tokens"),
            reasoning_tokens: number("/usage/reasoning_tokens"),
            first_token_ms: number("/first_token_ms"),
            duration_ms: number("/duration_ms"),
            lost_tokens: 0,
            endpoint: endpoint.unwrap_or_default().to_owned(),
            broke: body.pointer("/tokens/broke").cloned(),
        })
    }
}

/// Finds out what each step read again. `steps` are those of one session, in order.
pub(crate) fn find_lost(steps: &mut [Step]) {
    let mut known = 0;
    for step in steps {
        if step.prompt_tokens == 0 {
            // The server does not count.
            continue;
        }
        // A shorter prompt is another one: a fork with another definition, or another model.
        step.lost_tokens = known.min(step.prompt_tokens).saturating_sub(step.cached_tokens);
        let said = step.completion_tokens.saturating_sub(step.reasoning_tokens);
        known = step.prompt_tokens.saturating_add(said);
    }
}

/// Sums of one agent's sessions with one model.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Sums {
    #[serde(skip_serializing_if = "String::is_empty")]
    agent: String,
    model: String,
    sessions: u64,
    replies: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
    created_tokens: u64,
    completion_tokens: u64,
    reasoning_tokens: u64,
    first_token_ms: u64,
    decode_ms: u64,
    decode_tokens: u64,
    cost_micros: Option<u64>,
}

impl Sums {
    /// None yet, of this agent with this model.
    pub(crate) fn new(agent: &str, model: &str) -> Self {
        Self { agent: agent.to_owned(), model: model.to_owned(), ..Self::default() }
    }

    /// Takes one session's.
    pub(crate) fn add(&mut self, it: &v1::ModelAccount) {
        // The numbers are a model server's own, and nobody vouches for it.
        let sums = [
            (&mut self.sessions, 1),
            (&mut self.replies, u64::from(it.replies)),
            (&mut self.prompt_tokens, it.prompt_tokens),
            (&mut self.cached_tokens, it.cached_tokens),
            (&mut self.created_tokens, it.created_tokens),
            (&mut self.completion_tokens, it.completion_tokens),
            (&mut self.reasoning_tokens, it.reasoning_tokens),
            (&mut self.first_token_ms, it.first_token_ms),
            (&mut self.decode_ms, it.decode_ms),
            (&mut self.decode_tokens, it.decode_tokens),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        self.cost_micros = match (self.cost_micros, it.cost_micros) {
            (Some(sum), Some(cost)) => Some(sum.saturating_add(cost)),
            (sum, cost) => sum.or(cost),
        };
    }
}

/// [`v1::Account`].
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Account {
    models: Vec<Sums>,
    bound_tokens: u64,
    uncached_tokens: u64,
    read_ratio_thousandths: u64,
}

impl From<&v1::Account> for Account {
    fn from(it: &v1::Account) -> Self {
        let sums = |account: &v1::ModelAccount| {
            let mut sums = Sums::new("", &account.model);
            sums.add(account);
            sums
        };
        Self {
            models: it.models.iter().map(sums).collect(),
            bound_tokens: it.bound_tokens,
            uncached_tokens: it.uncached_tokens,
            read_ratio_thousandths: it.read_ratio_thousandths,
        }
    }
}

/// Sums in a table.
pub(crate) fn sums_table(sums: &[Sums], width: Option<usize>, paint: Paint) -> Vec<String> {
    let columns = [
        Column::new("AGENT", Fit::CutEnd(8)),
        Column::new("MODEL", Fit::CutEnd(8)),
        Column::right("SESSIONS", Fit::Whole),
        Column::right("REPLIES", Fit::Drop(1)),
        Column::right("PROMPT", Fit::Whole),
        Column::right("CACHED", Fit::Whole),
        Column::right("OUT", Fit::Whole),
        Column::right("REASONING", Fit::Drop(4)),
        Column::right("FIRST", Fit::Drop(2)),
        Column::right("PER TOKEN", Fit::Drop(3)),
        Column::right("COST", Fit::Whole),
    ];
    let rows: Vec<_> = sums.iter().map(sums_row).collect();
    render(&columns, &rows, width, paint)
}

fn sums_row(it: &Sums) -> [Cell; 11] {
    [
        it.agent.as_str().into(),
        it.model.as_str().into(),
        when::number(it.sessions).into(),
        when::number(it.replies).into(),
        when::number(it.prompt_tokens).into(),
        percent(it.cached_tokens, it.prompt_tokens).into(),
        when::number(it.completion_tokens).into(),
        when::number(it.reasoning_tokens).into(),
        mean_ms(it.first_token_ms, it.replies).into(),
        mean_ms(it.decode_ms, it.decode_tokens).into(),
        it.cost_micros.map(money).unwrap_or_default().into(),
    ]
}

/// The steps of a session in a table.
pub(crate) fn steps_table(steps: &[Step], width: Option<usize>, paint: Paint) -> Vec<String> {
    let columns = [
        Column::right("STEP", Fit::Whole),
        Column::new("MODEL", Fit::CutEnd(8)),
        Column::right("PROMPT", Fit::Whole),
        Column::right("CACHED", Fit::Whole),
        Column::right("READ", Fit::Whole),
        Column::right("AGAIN", Fit::Whole),
        Column::right("OUT", Fit::Whole),
        Column::right("REASONING", Fit::Drop(3)),
        Column::right("FIRST", Fit::Whole),
        Column::right("PER TOKEN", Fit::Drop(2)),
        Column::new("ENDPOINT", Fit::Drop(1)),
    ];
    let rows: Vec<_> = steps.iter().map(steps_row).collect();
    render(&columns, &rows, width, paint)
}

fn steps_row(it: &Step) -> [Cell; 11] {
    let decode_ms = it.duration_ms.saturating_sub(it.first_token_ms);
    [
        it.step.to_string().into(),
        it.model.as_str().into(),
        when::number(it.prompt_tokens).into(),
        when::number(it.cached_tokens).into(),
        when::number(it.prompt_tokens.saturating_sub(it.cached_tokens)).into(),
        when::number(it.lost_tokens).into(),
        when::number(it.completion_tokens).into(),
        when::number(it.reasoning_tokens).into(),
        when::duration(it.first_token_ms).into(),
        mean_ms(decode_ms, it.completion_tokens.saturating_sub(1)).into(),
        it.endpoint.as_str().into(),
    ]
}

/// How much was read beside how much had to be; empty when the server does not count.
pub(crate) fn reading(account: &v1::Account) -> String {
    if account.read_ratio_thousandths == 0 {
        return String::new();
    }
    format!(
        "{} tokens read, {} × the {} of the first prompt and the observations",
        when::number(account.uncached_tokens),
        thousandths(account.read_ratio_thousandths),
        when::number(account.bound_tokens),
    )
}

/// What stands for tokens and cost where the server tells none.
pub(crate) const UNCOUNTED: &str = "unknown: the server tells no tokens";

/// Whether there were replies, and none of them with tokens.
pub(crate) fn is_uncounted(account: &v1::Account) -> bool {
    let none = |it: &v1::ModelAccount| it.prompt_tokens == 0 && it.completion_tokens == 0;
    account.models.iter().any(|it| it.replies > 0) && account.models.iter().all(none)
}

/// What it cost; empty when no model of it has a price.
pub(crate) fn cost(account: &v1::Account) -> String {
    if is_uncounted(account) && account.models.iter().any(|it| it.cost_micros.is_some()) {
        return UNCOUNTED.to_owned();
    }
    let costs: Vec<u64> = account.models.iter().filter_map(|it| it.cost_micros).collect();
    let unpriced = account.models.len() - costs.len();
    let sum = costs.iter().fold(0, |sum: u64, cost| sum.saturating_add(*cost));
    match (costs.is_empty(), unpriced) {
        (true, _) => String::new(),
        (false, 0) => money(sum),
        (false, _) => format!(
            "{}, without {} that has no price",
            money(sum),
            when::counted(unpriced, "model")
        ),
    }
}

/// Millionths as a number with six decimals, without the noughts at its end but two.
pub(crate) fn money(micros: u64) -> String {
    let text = format!("{}.{:06}", when::number(micros / 1_000_000), micros % 1_000_000);
    let least = text.len() - 4;
    let end = text.trim_end_matches('0').len().max(least);
    text.get(..end).unwrap_or(&text).to_owned()
}

fn thousandths(number: u64) -> String {
    format!("{}.{:02}", number / 1_000, number % 1_000 / 10)
}

fn percent(part: u64, whole: u64) -> String {
    let percent = (u128::from(part) * 100).checked_div(u128::from(whole));
    percent.map(|it| format!("{it}%")).unwrap_or_default()
}

/// A mean time; below ten milliseconds with one decimal.
fn mean_ms(sum: u64, count: u64) -> String {
    let tenths = (u128::from(sum) * 10).checked_div(u128::from(count));
    match tenths {
        None => String::new(),
        Some(tenths @ 1..100) => format!("{}.{} ms", tenths / 10, tenths % 10),
        Some(tenths) => when::duration(u64::try_from(tenths / 10).unwrap_or(u64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> v1::ModelAccount {
        v1::ModelAccount {
            model: "m".into(),
            replies: 4,
            prompt_tokens: 12_000,
            cached_tokens: 9_000,
            completion_tokens: 400,
            first_token_ms: 400,
            decode_ms: 2_376,
            decode_tokens: 396,
            cost_micros: Some(12_300),
            ..v1::ModelAccount::default()
        }
    }

    #[test]
    fn sums_are_one_row_for_an_agent_and_a_model() {
        let mut sums = Sums::new("coder", "m");
        sums.add(&account());
        sums.add(&v1::ModelAccount { cost_micros: None, ..account() });
        let lines = sums_table(&[sums], None, Paint::NONE);
        let words: Vec<_> = lines[1].split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "coder m 2 8 24,000 75% 800 0 100 ms 6.0 ms 0.0123",
            "{lines:?}"
        );
    }

    #[test]
    fn a_server_that_counts_beyond_all_numbers_is_summed_up_to_the_largest() {
        let lying = v1::ModelAccount {
            replies: u32::MAX,
            prompt_tokens: u64::MAX,
            cached_tokens: u64::MAX,
            created_tokens: u64::MAX,
            completion_tokens: u64::MAX,
            reasoning_tokens: u64::MAX,
            first_token_ms: u64::MAX,
            decode_ms: u64::MAX,
            decode_tokens: u64::MAX,
            cost_micros: Some(u64::MAX),
            ..account()
        };
        let mut sums = Sums::new("coder", "m");
        sums.add(&account());
        sums.add(&lying);
        assert_eq!((sums.prompt_tokens, sums.cost_micros), (u64::MAX, Some(u64::MAX)));
        let lines = sums_table(&[sums], None, Paint::NONE);
        assert!(lines[1].contains(&when::number(u64::MAX)), "{lines:?}");
        let one = v1::Account {
            models: vec![lying, account()],
            bound_tokens: u64::MAX,
            uncached_tokens: u64::MAX,
            read_ratio_thousandths: u64::MAX,
        };
        assert_eq!(cost(&one), money(u64::MAX));
        assert!(reading(&one).contains(&when::number(u64::MAX)));
        let mut steps = [u64::MAX; 2].map(|most| Step {
            prompt_tokens: most,
            completion_tokens: most,
            first_token_ms: most,
            duration_ms: most,
            ..Step::default()
        });
        find_lost(&mut steps);
        assert_eq!(steps_table(&steps, None, Paint::NONE).len(), 3);
    }

    #[test]
    fn a_step_is_read_from_its_event() {
        let body = r#"{"step":3,"usage":{"prompt_tokens":900,"cached_tokens":800,"completion_tokens":41},"endpoint":"http://h/v1/chat/completions","first_token_ms":200,"duration_ms":1000}"#;
        let event = v1::Event {
            r#type: "model_replied".into(),
            actor: "model:small".into(),
            body_json: body.into(),
            ..v1::Event::default()
        };
        let step = Step::of(&event).unwrap();
        let lines = steps_table(&[step], None, Paint::NONE);
        let words: Vec<_> = lines[1].split_whitespace().collect();
        let expected = "3 small 900 800 100 0 41 0 200 ms 20 ms http://h/v1/chat/completions";
        assert_eq!(words.join(" "), expected);
        assert_eq!(Step::of(&v1::Event { r#type: "x".into(), ..event }), None);
    }

    #[test]
    fn what_was_read_again_is_what_a_server_had() {
        let step = |prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens| Step {
            prompt_tokens,
            cached_tokens,
            completion_tokens,
            reasoning_tokens,
            ..Step::default()
        };
        let mut steps = [
            step(1_000, 0, 50, 0),
            // All in the cache but the end of a block.
            step(1_450, 1_040, 90, 60),
            // Another replica, which had nothing.
            step(1_900, 0, 10, 0),
            step(0, 0, 0, 0),
            step(2_000, 1_910, 10, 0),
            step(500, 0, 10, 0),
        ];
        find_lost(&mut steps);
        assert_eq!(steps.map(|it| it.lost_tokens), [0, 10, 1_480, 0, 0, 500]);
    }

    #[test]
    fn reading_and_cost_are_said_where_they_are_known() {
        let mut one = v1::Account {
            models: vec![account()],
            bound_tokens: 2_900,
            uncached_tokens: 3_000,
            read_ratio_thousandths: 1_034,
        };
        assert_eq!(
            reading(&one),
            "3,000 tokens read, 1.03 × the 2,900 of the first prompt and the observations"
        );
        assert_eq!(cost(&one), "0.0123");
        one.models.push(v1::ModelAccount { cost_micros: None, ..account() });
        assert_eq!(cost(&one), "0.0123, without 1 model that has no price");
        let none = v1::Account::default();
        assert_eq!((reading(&none), cost(&none)), (String::new(), String::new()));
        let silent = v1::ModelAccount { prompt_tokens: 0, completion_tokens: 0, ..account() };
        let uncounted = v1::Account { models: vec![silent], ..v1::Account::default() };
        assert!(is_uncounted(&uncounted) && !is_uncounted(&one) && !is_uncounted(&none));
        assert_eq!(cost(&uncounted), UNCOUNTED);
    }

    #[test]
    fn money_has_two_decimals_or_as_many_as_it_needs() {
        for (micros, text) in
            [(0, "0.00"), (1, "0.000001"), (1_500_000, "1.50"), (1_234_567_000_000, "1,234,567.00")]
        {
            assert_eq!(money(micros), text);
        }
    }
}

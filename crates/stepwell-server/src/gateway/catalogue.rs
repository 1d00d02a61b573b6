//! Remembers registered tools, so that sessions can be created while their workers are away.
//!
//! Two workers can offer one tool with different definitions. The newer definition is what new
//! sessions get; sessions that exist have their own copy. Only the effect class is guarded, because
//! it decides whether a person is asked and whether a call may run twice: it is never weakened
//! (write → idempotent → read) by a worker other than the one that registered the tool last, nor
//! while another connected worker still offers it with the stronger class. Its own worker may weaken
//! it, which is logged. A dispatch has its own guard: a call whose session believes in a weaker class
//! than the worker declares is refused (see `Fleet::start`).

use stepwell_core::{Effect, TimestampMs, ToolSpec};
use stepwell_ports::{StoreError, ToolRecord};
use tracing::warn;

use super::hello::Offered;

/// How much a class must be guarded.
fn strength(effect: Effect) -> u8 {
    match effect {
        Effect::Read => 0,
        Effect::Idempotent => 1,
        Effect::Write => 2,
    }
}

/// Whether `effect` must be guarded more than `than`.
pub(super) fn is_stronger(effect: Effect, than: Effect) -> bool {
    strength(effect) > strength(than)
}

/// What is stored when `worker` registers `tools`. `others` gives the strongest class with which
/// another connected worker offers a tool.
///
/// # Errors
/// A definition that cannot be written as JSON.
pub(super) fn merge(
    worker: &str,
    tools: &[Offered],
    known: &[ToolRecord],
    others: impl Fn(&str) -> Option<Effect>,
    now: TimestampMs,
) -> Result<Vec<ToolRecord>, StoreError> {
    let mut records = Vec::with_capacity(tools.len());
    for offered in tools {
        let mut spec = offered.spec.clone();
        let record = known.iter().find(|it| it.name == spec.name);
        spec.effect = guarded(worker, &spec, record, others(&spec.name));
        let text = serde_json::to_string(&spec).map_err(|error| StoreError::Failed {
            operation: "register a tool",
            reason: error.to_string(),
        })?;
        records.push(ToolRecord {
            name: spec.name,
            spec: text,
            worker: worker.to_owned(),
            seen_at: now,
        });
    }
    Ok(records)
}

fn guarded(
    worker: &str,
    spec: &ToolSpec,
    record: Option<&ToolRecord>,
    others: Option<Effect>,
) -> Effect {
    let mut effect = spec.effect;
    if let Some(other) = others.filter(|it| is_stronger(*it, effect)) {
        effect = other;
    }
    // A record that cannot be read is replaced: it could not be used either.
    let known = record.and_then(|it| Some((it, serde_json::from_str::<ToolSpec>(&it.spec).ok()?)));
    if let Some((record, known)) = known
        && is_stronger(known.effect, effect)
    {
        if record.worker == worker {
            warn!(tool = spec.name, worker, was = ?known.effect, is = ?effect,
                "the worker declares a weaker effect class than before; new sessions get it");
        } else {
            effect = known.effect;
        }
    }
    if effect != spec.effect {
        warn!(tool = spec.name, worker, declared = ?spec.effect, kept = ?effect,
            "the worker declares a weaker effect class than another one did; the stronger is kept");
    }
    effect
}

#[cfg(test)]
mod tests {
    use stepwell_core::{JsonText, ToolKind};

    use super::*;

    fn offered(effect: Effect) -> Offered {
        let spec = ToolSpec {
            name: "pay".to_owned(),
            description: String::new(),
            parameters: JsonText::empty_object(),
            output_schema: None,
            effect,
            timeout_ms: 1,
            kind: ToolKind::Worker,
        };
        Offered { spec, concurrency: 0 }
    }

    fn record(worker: &str, effect: Effect) -> ToolRecord {
        let spec = serde_json::to_string(&offered(effect).spec).unwrap();
        let (name, worker) = ("pay".to_owned(), worker.to_owned());
        ToolRecord { name, spec, worker, seen_at: TimestampMs(1) }
    }

    /// Worker `a` registers `pay` as a read tool.
    #[track_caller]
    fn check(known: &[ToolRecord], other: Option<Effect>, expected: Effect) {
        let tools = [offered(Effect::Read)];
        let records = merge("a", &tools, known, |_| other, TimestampMs(2)).unwrap();
        let [record] = records.as_slice() else { panic!("{records:?}") };
        let spec: ToolSpec = serde_json::from_str(&record.spec).unwrap();
        assert_eq!((spec.effect, record.seen_at), (expected, TimestampMs(2)));
    }

    #[test]
    fn a_new_tool_is_what_its_worker_says() {
        check(&[], None, Effect::Read);
    }

    #[test]
    fn another_worker_does_not_weaken_the_class() {
        check(&[record("b", Effect::Write)], None, Effect::Write);
        check(&[], Some(Effect::Idempotent), Effect::Idempotent);
        check(&[record("a", Effect::Read)], Some(Effect::Write), Effect::Write);
    }

    #[test]
    fn its_own_worker_may_change_its_mind() {
        check(&[record("a", Effect::Write)], None, Effect::Read);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_replaced() {
        let mut broken = record("b", Effect::Write);
        broken.spec = "{".to_owned();
        check(&[broken], None, Effect::Read);
    }
}

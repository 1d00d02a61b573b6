//! Recorded inputs through the rules again: the same decisions must come out, and both laws must hold.

use stepwell_core::event::Event;
use stepwell_core::replay::input_of;
use stepwell_core::{SessionState, apply, decide, pending};

/// Replays `events`, which follow `state` and end with a whole append.
///
/// # Errors
/// The first difference.
pub(super) fn check(state: &SessionState, events: &[Event]) -> Result<(), String> {
    let mut state = state.clone();
    let mut rest = events;
    while let Some(first) = rest.first() {
        let input =
            input_of(first).ok_or_else(|| format!("event {} follows from no input", first.seq))?;
        let decision = decide(&state, input, first.time)
            .map_err(|reject| format!("event {} is refused when replayed: {reject}", first.seq))?;
        let recorded = rest.get(..decision.events.len()).unwrap_or(rest);
        if let Some((seq, decided)) = difference(recorded, &decision.events) {
            return Err(format!("event {seq} is recorded otherwise; replayed it is {decided:?}"));
        }
        let owed = pending(&decision.state);
        if let Some(lost) = decision.commands.iter().find(|command| !owed.contains(command)) {
            return Err(format!("{lost:?} is ordered by event {} and not pending", first.seq));
        }
        for event in recorded {
            apply(&mut state, event).map_err(|error| format!("a law is broken: {error}"))?;
        }
        if state != decision.state {
            return Err(format!("event {} folds to another state than was decided", first.seq));
        }
        rest = rest.get(decision.events.len()..).unwrap_or_default();
    }
    Ok(())
}

fn difference<'a>(recorded: &[Event], decided: &'a [Event]) -> Option<(u64, &'a Event)> {
    let recorded = recorded.iter().map(Some).chain(std::iter::repeat(None));
    let mut pairs = decided.iter().zip(recorded);
    pairs.find(|(decided, recorded)| Some(*decided) != *recorded).map(|(it, _)| (it.seq.0, it))
}

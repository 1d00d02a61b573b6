//! The spans that were added last, by name: what comes next in a history is mostly about them.

use super::forest::NodeId;
use super::tree::Code;

/// Names that are remembered: more than an event and those before it name.
const SLOTS: usize = 64;

/// Each name has one slot, which the next name that falls there takes over.
#[derive(Debug)]
pub(super) struct Recent {
    slots: [Option<(Code, NodeId)>; SLOTS],
}

impl Default for Recent {
    fn default() -> Self {
        Self { slots: [None; SLOTS] }
    }
}

impl Recent {
    pub(super) fn get(&self, code: Code) -> Option<NodeId> {
        let (found, at) = self.slots.get(code.spread() % SLOTS).copied()??;
        (found == code).then_some(at)
    }

    pub(super) fn keep(&mut self, code: Code, at: NodeId) {
        if let Some(slot) = self.slots.get_mut(code.spread() % SLOTS) {
            *slot = Some((code, at));
        }
    }

    pub(super) fn forget(&mut self, code: Code) {
        if let Some(slot) = self.slots.get_mut(code.spread() % SLOTS)
            && slot.is_some_and(|(kept, _)| kept == code)
        {
            *slot = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Key;
    use super::*;

    #[test]
    fn a_name_is_never_taken_for_another() {
        let mut recent = Recent::default();
        let code = |step| Key::Step(step).code();
        for step in 0..1_000 {
            recent.keep(code(step), step);
            assert_eq!(recent.get(code(step)), Some(step));
        }
        let kept = (0..1_000).filter_map(|step| Some((step, recent.get(code(step))?)));
        let kept: alloc::vec::Vec<_> = kept.collect();
        assert!(kept.len() <= SLOTS && kept.iter().all(|(step, at)| step == at), "{kept:?}");
        recent.forget(code(999));
        assert_eq!(recent.get(code(999)), None);
        recent.forget(code(1_000_000));
    }
}

//! What the model and the tools do when nobody wrote a script: whatever the seed says.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_core::event::{FinishReason, ModelErrorKind, ToolOutcome};
use stepwell_ports::ToolRequest;

use crate::agents::{ERASE, LOOK, NOTE, PAY, PUT};
use crate::dice::Dice;
use crate::fleet::{CallFault, CallPlan};
use crate::model::{Act, Asked, Say, call, fail, say};

/// How the model and the workers behave.
#[derive(Debug, Clone, Copy)]
pub struct Mood {
    /// Requests to the model that fail, per 1,000.
    pub model_fails: u64,
    /// Replies that ask for tools, per 1,000.
    pub model_calls: u64,
    /// Tool calls that something goes wrong with, per 1,000.
    pub tools_fail: u64,
    /// Longest model call and tool call, in milliseconds.
    pub slow_ms_max: u64,
}

impl Mood {
    /// Nothing fails and sessions come to their end.
    pub const HEALED: Self =
        Self { model_fails: 0, model_calls: 300, tools_fail: 0, slow_ms_max: 200 };
}

/// Chance that can be told to behave.
pub struct Chance {
    dice: Dice,
    mood: Mutex<Mood>,
}

impl Chance {
    /// Chance that begins in `mood`.
    pub fn new(dice: Dice, mood: Mood) -> Arc<Self> {
        Arc::new(Self { dice, mood: Mutex::new(mood) })
    }

    /// Changes the mood.
    pub fn mood(&self) -> MutexGuard<'_, Mood> {
        self.mood.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the model does with a request.
    pub fn reply(&self, asked: Asked) -> Say {
        let mood = *self.mood();
        let dice = &self.dice;
        let after_ms = dice.below(mood.slow_ms_max);
        if dice.chance(mood.model_fails) {
            return self.failure().after_ms(after_ms);
        }
        if !dice.chance(mood.model_calls) {
            return self.answer(asked).after_ms(after_ms);
        }
        let calls: Vec<(&str, String)> = (0..dice.between(1, 3)).map(|_| self.call()).collect();
        let calls: Vec<(&str, &str)> =
            calls.iter().map(|(name, arguments)| (*name, arguments.as_str())).collect();
        self.finish(call(&calls).after_ms(after_ms))
    }

    fn answer(&self, asked: Asked) -> Say {
        // Now and then one that does not fit into the events table.
        let text = if self.dice.chance(30) { "long ".repeat(4_000) } else { "done".to_string() };
        self.finish(say(&format!("{text} with step {}", asked.step)))
    }

    fn finish(&self, mut said: Say) -> Say {
        if let Act::Answer(answer) = &mut said.act {
            match self.dice.below(60) {
                0 => answer.finish_reason = FinishReason::Length,
                1 => answer.finish_reason = FinishReason::ContentFilter,
                // Some servers give all calls one id, or none.
                2 => answer.tool_calls.iter_mut().for_each(|it| it.id = "same".to_string()),
                3 => answer.tool_calls.iter_mut().for_each(|it| it.id.clear()),
                _ => {}
            }
        }
        said
    }

    fn failure(&self) -> Say {
        match self.dice.below(16) {
            0..=2 => fail(ModelErrorKind::Transport),
            3 | 4 => fail(ModelErrorKind::RateLimited).retry_after_ms(self.dice.between(0, 20_000)),
            5 | 6 => fail(ModelErrorKind::ServerError),
            7 => fail(ModelErrorKind::Overloaded),
            8..=10 => fail(ModelErrorKind::StreamBroken),
            11 => fail(ModelErrorKind::BadResponse),
            12 => Say { after_ms: 0, act: Act::Panic },
            13 | 14 => Say { after_ms: 0, act: Act::Silence },
            _ if self.dice.chance(300) => fail(ModelErrorKind::ContextTooLong),
            _ => fail(ModelErrorKind::Timeout),
        }
    }

    fn call(&self) -> (&'static str, String) {
        let dice = &self.dice;
        let tool = match dice.below(40) {
            0..=7 => LOOK,
            8..=14 => PUT,
            15..=21 => PAY,
            22..=30 => NOTE,
            31 => ERASE,
            32..=34 => "ask_user",
            35..=38 => "sleep",
            _ => "nosuch",
        };
        let arguments = match (tool, dice.below(40)) {
            (_, 0) => "{\"n\":".to_string(),
            (_, 1) => "{\"n\":\"one\"}".to_string(),
            (_, 2) => "[1]".to_string(),
            (_, 3) => String::new(),
            ("ask_user", _) => format!("{{\"question\":\"why {}?\"}}", dice.below(1_000)),
            ("sleep", _) => format!("{{\"seconds\":{}}}", dice.below(90)),
            // The same action again, so that repetition is noticed.
            (_, 4..=12) => "{\"n\":7}".to_string(),
            (_, _) => format!("{{\"n\":{}}}", dice.below(1_000_000)),
        };
        (tool, arguments)
    }

    /// How a tool call goes.
    pub fn run(&self, request: &ToolRequest) -> CallPlan {
        let mood = *self.mood();
        let dice = &self.dice;
        let mut plan = CallPlan::ok(dice.below(mood.slow_ms_max));
        plan.output = format!("{} of {}", request.tool.name, request.arguments);
        if dice.chance(30) {
            plan.output = "much ".repeat(4_000);
        }
        if dice.chance(100) {
            plan.outcome = ToolOutcome::Error;
        }
        plan.is_deaf = mood.tools_fail > 0 && dice.chance(400);
        if dice.chance(mood.tools_fail) {
            plan.fault = match dice.below(12) {
                0..=3 => CallFault::NeverStarts,
                4..=6 => CallFault::ConnectionBreaks,
                7 | 8 => CallFault::WorkerDies,
                9 | 10 => CallFault::Hangs,
                _ => CallFault::Panic,
            };
        }
        plan
    }
}

//! Why an input is refused.

use alloc::string::String;

use crate::apply::IllegalHistory;
use crate::decide::DECISIONS_MAX;
use crate::event::{Actor, ApprovalDecision, Question};
use crate::ids::{ApprovalId, CallId};
use crate::state::Status;

/// Why an input is refused. The state is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// A second creation.
    #[error("the session exists already")]
    AlreadyExists,
    /// Nothing was created under that id.
    #[error("the session does not exist")]
    NotFound,
    /// The session ended.
    #[error("the session is {}", .status.as_str())]
    Finished {
        /// How.
        status: Status,
    },
    /// A reply to a request that is not open: cancelled, or asked again by another owner.
    #[error("step {step} attempt {attempt} was not asked, or is settled")]
    NotAsked {
        /// The step of the reply.
        step: u32,
        /// Its attempt.
        attempt: u32,
    },
    /// A report on a call that does not run, or on another attempt.
    #[error("call {call_id} attempt {attempt} does not run")]
    NotRunning {
        /// The call.
        call_id: CallId,
        /// The attempt.
        attempt: u32,
    },
    /// A report on a call that another worker has.
    #[error("call {call_id} attempt {attempt} runs on worker {worker}")]
    OtherWorker {
        /// The call.
        call_id: CallId,
        /// The attempt.
        attempt: u32,
        /// Who has it.
        worker: String,
    },
    /// A call may not start now.
    #[error("call {call_id} may not start: the session is paused or cancelled")]
    MayNotStart {
        /// The call.
        call_id: CallId,
    },
    /// A single step of a session that runs by itself.
    #[error("the session is not paused: pause it, then step through it")]
    NotPaused,
    /// A single step of a session in which nothing may begin now.
    #[error("there is nothing to do now: {why}")]
    NothingToStep {
        /// Why the session is where it is.
        why: String,
    },
    /// No such approval.
    #[error("the session has no approval {approval_id}")]
    UnknownApproval {
        /// Its id.
        approval_id: ApprovalId,
    },
    /// Decided before, differently.
    #[error("approval {approval_id} is decided already: {} by {by}", .decision.as_str())]
    AlreadyDecided {
        /// Its id.
        approval_id: ApprovalId,
        /// What was decided.
        decision: ApprovalDecision,
        /// Who was faster.
        by: Actor,
    },
    /// Its time passed.
    #[error("approval {approval_id} has expired")]
    ApprovalExpired {
        /// Its id.
        approval_id: ApprovalId,
    },
    /// The answer does not fit the question.
    #[error("{} does not answer approval {approval_id}: {}", .decision.as_str(), answers_of(*.question))]
    WrongAnswer {
        /// Its id.
        approval_id: ApprovalId,
        /// What is asked.
        question: Question,
        /// What was answered.
        decision: ApprovalDecision,
    },
    /// The person was shown something else than what would run.
    #[error("approval {approval_id} is about another action: {what} differs; look at it again")]
    ActionChanged {
        /// Its id.
        approval_id: ApprovalId,
        /// `the digest` or `the tool`.
        what: &'static str,
    },
    /// The edited arguments are forbidden.
    #[error("the arguments are forbidden by {rule}")]
    Forbidden {
        /// Which rule, in words.
        rule: String,
    },
    /// The message answers a call that asks nothing.
    #[error("call {call_id} awaits no answer")]
    NoQuestion {
        /// The call.
        call_id: CallId,
    },
    /// The fork is not possible at that event.
    #[error("{reason}")]
    CannotFork {
        /// Why, and what to do.
        reason: String,
    },
    /// A bug: a decision that the state machine itself does not accept.
    #[error("internal: {0}")]
    Internal(IllegalHistory),
    /// A bug: decisions that never come to rest.
    #[error("internal: more than {DECISIONS_MAX} decisions follow from one input")]
    Endless,
}

fn answers_of(question: Question) -> &'static str {
    match question {
        Question::MayRun => "it asks whether the call may run (approve, deny)",
        Question::WhatHappened => {
            "it asks what became of the call (resolve: happened, did-not-happen, failed)"
        }
    }
}

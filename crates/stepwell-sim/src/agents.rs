//! Agents of the world: few tools, one for each thing that a tool may do to the world.

use stepwell_core::agent::{
    ApprovalRule, FallbackRule, History, Limits, ModelSpec, ModelTimeouts, RetryPolicy,
    Verdict as Rule,
};
use stepwell_core::output::OutputPolicy;
use stepwell_core::{Agent, Effect, JsonText, ToolKind, ToolSpec};

use crate::dice::Dice;

/// A tool that only looks.
pub const LOOK: &str = "look";
/// A tool that may be repeated.
pub const PUT: &str = "put";
/// A tool that must not run twice and needs a person's yes.
pub const PAY: &str = "pay";
/// A tool that must not run twice and is allowed by a rule.
pub const NOTE: &str = "note";
/// A tool that a rule forbids.
pub const ERASE: &str = "erase";

/// A worker's tool with one optional argument, the integer `n`.
///
/// # Panics
/// Never: the schema is constant.
pub fn tool(name: &str, effect: Effect) -> ToolSpec {
    let schema =
        r#"{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}"#;
    ToolSpec {
        name: name.to_string(),
        description: format!("The tool {name}."),
        parameters: JsonText::parse(schema).unwrap_or_else(|_| JsonText::empty_object()),
        output_schema: None,
        effect,
        timeout_ms: 120_000,
        kind: ToolKind::Worker,
    }
}

/// An agent with all tools of this module, `ask_user` and `sleep`, and quick retries.
pub fn agent() -> Agent {
    let rule = |tool: &str, verdict| ApprovalRule {
        tool: tool.to_string(),
        arguments: Vec::new(),
        commands: Vec::new(),
        verdict,
    };
    Agent {
        name: "sim".to_string(),
        version: 1,
        instructions: "You are simulated.".to_string(),
        model: ModelSpec {
            name: "sim-1".to_string(),
            base_url: crate::model::ENDPOINT.to_string(),
            replicas: Vec::new(),
            fallbacks: Vec::new(),
            fallback_rule: FallbackRule::default(),
            api_key_env: None,
            parameters: JsonText::empty_object(),
            timeouts: ModelTimeouts { total_ms: 60_000, ..ModelTimeouts::default() },
            history: History::default(),
            token_ids: false,
        },
        tools: vec![
            tool(LOOK, Effect::Read),
            tool(PUT, Effect::Idempotent),
            tool(PAY, Effect::Write),
            tool(NOTE, Effect::Write),
            tool(ERASE, Effect::Write),
            ToolSpec::ask_user(),
            ToolSpec::sleep(),
        ],
        limits: Limits::default(),
        approval_rules: vec![rule(NOTE, Rule::Allow), rule(ERASE, Rule::Deny)],
        approval_expires_after_ms: None,
        interactive: false,
        retry: RetryPolicy { attempts_max: 12, base_ms: 500, cap_ms: 8_000 },
        output: OutputPolicy::default(),
    }
}

/// The same with limits and habits by chance.
pub fn random_agent(dice: &Dice) -> Agent {
    let mut agent = agent();
    let limits = &mut agent.limits;
    limits.steps_max = dice.between(2, 40) as u32;
    limits.repeat_count = dice.between(2, 4) as u32;
    limits.deadline_ms = dice.chance(150).then(|| dice.between(10_000, 900_000));
    limits.tokens_max = dice.chance(100).then(|| dice.between(150, 3_000));
    limits.tool_attempts_max = dice.between(1, 4) as u32;
    limits.observation_bytes_max = dice.between(10, 40_000) as u32;
    agent.approval_expires_after_ms = dice.chance(300).then(|| dice.between(1_000, 120_000));
    agent.interactive = dice.chance(200);
    agent.retry.attempts_max = dice.between(3, 20) as u32;
    for tool in &mut agent.tools {
        if tool.kind == ToolKind::Worker {
            tool.timeout_ms = dice.between(5_000, 60_000);
        }
    }
    agent
}

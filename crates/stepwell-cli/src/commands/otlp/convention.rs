//! The names that OpenTelemetry gives things, all of one version.
//!
//! Source: OpenTelemetry semantic conventions v1.41.0, `docs/gen-ai/gen-ai-spans.md` and
//! `gen-ai-agent-spans.md`, <https://github.com/open-telemetry/semantic-conventions/tree/v1.41.0>,
//! the last release before these conventions moved to a repository of their own. They are all in
//! development: a later version changes names, so nothing but this file may know one.

/// The version that all names here are of.
pub(super) const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";

pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const PROVIDER: &str = "gen_ai.provider.name";
pub(super) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(super) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// Part of the input tokens.
pub(super) const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(super) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(super) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(super) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(super) const ERROR_TYPE: &str = "error.type";
pub(super) const SERVER_ADDRESS: &str = "server.address";
pub(super) const SERVER_PORT: &str = "server.port";

/// Values of [`OPERATION`]; a span's name is `OPERATION WHAT`.
pub(super) mod operation {
    pub(in super::super) const AGENT: &str = "invoke_agent";
    pub(in super::super) const CHAT: &str = "chat";
    pub(in super::super) const TOOL: &str = "execute_tool";
}

/// Value of [`PROVIDER`]: the convention has it for whatever is reached by a client of OpenAI's API;
/// [`SERVER_ADDRESS`] tells who it is.
pub(super) const OPENAI: &str = "openai";

/// Value of [`TOOL_TYPE`]: run on our side.
pub(super) const FUNCTION: &str = "function";

//! What a tool worker is made of: the SDK for tools, and the built-in tools.
//!
//! A tool is an async function with a typed argument struct ([`tool_fn`]) or a type that
//! implements [`Tool`]. Tools are collected in a [`Toolbox`]; [`builtin::add_builtin_tools`] adds those that
//! work on a session's workspace folder.
//!
//! Invariant: tool code knows nothing of the wire. Only the host does.
//!
//! ```
//! use stepwell_worker::{Effect, Toolbox, ToolError, tool_fn};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Add {
//!     /// The first summand.
//!     left: i64,
//!     /// The second summand.
//!     right: i64,
//! }
//!
//! let add = tool_fn("add", "Adds two whole numbers.", Effect::Read, |_context, numbers: Add| async move {
//!     let sum = numbers.left.checked_add(numbers.right).ok_or_else(|| ToolError::failed("the sum is too large"))?;
//!     Ok(sum.to_string())
//! });
//! let mut toolbox = Toolbox::new();
//! toolbox.add(add)?;
//! # Ok::<(), stepwell_worker::ToolboxError>(())
//! ```

pub mod builtin;
mod context;
mod function;
pub mod host;
mod inherited;
mod text;
mod tool;
mod toolbox;
mod workspace;

pub use context::{OutputSink, ToolContext};
pub use function::{FunctionTool, tool_fn};
pub use inherited::close_inherited_handles;
pub use tool::{Effect, Tool, ToolDescription, ToolError, ToolOutput, ToolResult};
pub use toolbox::{Toolbox, ToolboxError};

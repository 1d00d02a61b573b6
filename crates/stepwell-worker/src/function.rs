//! A tool made of an async function with a typed argument struct.

use std::marker::PhantomData;
use std::time::Duration;

use async_trait::async_trait;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;

use crate::context::ToolContext;
use crate::tool::{Effect, Tool, ToolDescription, ToolError, ToolOutput, ToolResult};

/// Makes a tool of a function. The schema of the arguments is derived from `Arguments`; doc
/// comments on its fields become descriptions that the model reads.
///
/// Numbers arrive with full precision, so `Arguments` must not use serde's `flatten`, `untagged`
/// or internally tagged enums around numbers: they do not survive that.
pub fn tool_fn<Arguments, Run, Running, Output>(
    name: impl Into<String>,
    description: impl Into<String>,
    effect: Effect,
    run: Run,
) -> FunctionTool<Arguments, Run>
where
    Arguments: DeserializeOwned + JsonSchema + Send + 'static,
    Run: Fn(ToolContext, Arguments) -> Running + Send + Sync + 'static,
    Running: Future<Output = Result<Output, ToolError>> + Send + 'static,
    Output: Into<ToolOutput>,
{
    let description = ToolDescription {
        name: name.into(),
        description: description.into(),
        parameters: schema_of::<Arguments>(),
        output_schema: None,
        effect,
        timeout: ToolDescription::TIMEOUT_DEFAULT,
        concurrency: ToolDescription::CONCURRENCY_DEFAULT,
    };
    FunctionTool { description, run, arguments: PhantomData }
}

/// What [`tool_fn`] makes.
#[derive(Debug)]
pub struct FunctionTool<Arguments, Run> {
    description: ToolDescription,
    run: Run,
    arguments: PhantomData<fn() -> Arguments>,
}

impl<Arguments, Run> FunctionTool<Arguments, Run> {
    /// Sets how long one call may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.description.timeout = timeout;
        self
    }

    /// Sets how many calls run side by side.
    pub fn concurrency(mut self, concurrency: u32) -> Self {
        self.description.concurrency = concurrency;
        self
    }

    /// Declares that the output is JSON of the shape of `Shape`.
    pub fn output<Shape: JsonSchema>(mut self) -> Self {
        self.description.output_schema = Some(schema_of::<Shape>());
        self
    }
}

#[async_trait]
impl<Arguments, Run, Running, Output> Tool for FunctionTool<Arguments, Run>
where
    Arguments: DeserializeOwned + JsonSchema + Send + 'static,
    Run: Fn(ToolContext, Arguments) -> Running + Send + Sync + 'static,
    Running: Future<Output = Result<Output, ToolError>> + Send + 'static,
    Output: Into<ToolOutput>,
{
    fn describe(&self) -> ToolDescription {
        self.description.clone()
    }

    async fn call(&self, context: ToolContext, arguments: &str) -> ToolResult {
        let arguments = serde_json::from_str::<Arguments>(arguments).map_err(|error| {
            ToolError::Failed(format!(
                "the arguments do not fit the tool `{}`: {error}; see its parameters",
                self.description.name
            ))
        })?;
        (self.run)(context, arguments).await.map(Into::into)
    }
}

/// The schema as text, written into every prompt: without what says nothing to a model.
fn schema_of<Shape: JsonSchema>() -> String {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<Shape>();
    RecursiveTransform(close_object).transform(&mut schema);
    schema.remove("title");
    schema.as_value().to_string()
}

/// An argument that the struct does not know is a mistake of the model, and is refused before the
/// tool runs rather than ignored.
fn close_object(schema: &mut Schema) {
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, JsonSchema)]
    struct Inner {
        #[expect(dead_code, reason = "only its schema is looked at")]
        size: u32,
    }

    #[derive(serde::Deserialize, JsonSchema)]
    struct Outer {
        /// Where to look.
        #[expect(dead_code, reason = "only its schema is looked at")]
        path: String,
        #[expect(dead_code, reason = "only its schema is looked at")]
        inner: Option<Inner>,
    }

    #[derive(serde::Deserialize, JsonSchema)]
    struct Nothing {}

    #[test]
    fn schemas_are_inline_and_closed_on_every_level() {
        let schema: serde_json::Value = serde_json::from_str(&schema_of::<Outer>()).unwrap();
        assert_eq!(schema["type"], "object", "{schema}");
        assert_eq!(schema["additionalProperties"], false, "{schema}");
        assert_eq!(schema["properties"]["path"]["description"], "Where to look.", "{schema}");
        assert_eq!(schema["required"], serde_json::json!(["path"]), "{schema}");
        let text = schema.to_string();
        assert!(!text.contains("$ref") && !text.contains("$defs"), "{text}");
        assert_eq!(text.matches("\"additionalProperties\":false").count(), 2, "{text}");
    }

    #[test]
    fn a_tool_without_arguments_has_an_object_schema() {
        let schema: serde_json::Value = serde_json::from_str(&schema_of::<Nothing>()).unwrap();
        assert_eq!(schema["type"], "object", "{schema}");
    }
}

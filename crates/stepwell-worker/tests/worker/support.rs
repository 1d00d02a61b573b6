//! A workspace in a temporary folder, and calls on it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use stepwell_worker::builtin::{BuiltinOptions, add_builtin_tools};
use stepwell_worker::{OutputSink, ToolContext, ToolError, ToolResult, Toolbox};
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// No call here takes this long unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Bench {
    /// Holds the workspace `ws` and whatever a test puts beside it.
    around: TempDir,
    pub(crate) toolbox: Toolbox,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_options(BuiltinOptions::default())
    }

    pub(crate) fn with_options(options: BuiltinOptions) -> Self {
        let around = tempfile::tempdir().unwrap();
        std::fs::create_dir(around.path().join("ws")).unwrap();
        let mut toolbox = Toolbox::new();
        add_builtin_tools(&mut toolbox, options).unwrap();
        Self { around, toolbox }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.around.path().canonicalize().unwrap().join("ws")
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.around.path().join(name)
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.workspace().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> String {
        std::fs::read_to_string(self.workspace().join(path)).unwrap()
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, name: &str) {
        std::os::unix::fs::symlink(target, self.workspace().join(name)).unwrap();
    }

    pub(crate) fn context(&self) -> ToolContext {
        ToolContext {
            session_id: "session".to_owned(),
            call_id: "call".to_owned(),
            attempt: 1,
            idempotency_key: "session/call".to_owned(),
            workspace: self.workspace(),
            cancel: CancellationToken::new(),
            deadline: Instant::now() + PATIENCE,
            output: OutputSink::discard(),
        }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        self.call_with(self.context(), tool, &arguments.to_string()).await
    }

    pub(crate) async fn call_with(
        &self,
        context: ToolContext,
        tool: &str,
        arguments: &str,
    ) -> ToolResult {
        let tool = self.toolbox.get(tool).unwrap();
        tokio::time::timeout(PATIENCE, tool.call(context, arguments)).await.expect(arguments)
    }

    pub(crate) async fn text(&self, tool: &str, arguments: Value) -> String {
        let shown = arguments.to_string();
        match self.call(tool, arguments).await {
            Ok(output) => output.text,
            Err(error) => panic!("{tool} {shown}: {error:?}"),
        }
    }

    pub(crate) async fn refusal(&self, tool: &str, arguments: Value) -> String {
        let shown = arguments.to_string();
        match self.call(tool, arguments).await {
            Err(ToolError::Failed(message)) => message,
            other => panic!("{tool} {shown}: {other:?}"),
        }
    }

    /// The live processes with this command line in this workspace.
    pub(crate) fn processes(&self, command_line: &str) -> Vec<String> {
        let mut found = Vec::new();
        for process in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
            let read = |file| std::fs::read(process.path().join(file)).unwrap_or_default();
            let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            let state = String::from_utf8_lossy(&read("stat")).into_owned();
            let folder = std::fs::read_link(process.path().join("cwd")).unwrap_or_default();
            // Another run of these tests has the same commands in other folders.
            let is_here = folder.starts_with(self.workspace());
            if is_here && line.trim() == command_line && !state.contains(") Z ") {
                found.push(state);
            }
        }
        found
    }
}

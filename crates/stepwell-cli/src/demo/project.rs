//! The project that the demo's agent mends: real files, a real failing test, a real repository.

use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context as _, bail, ensure};
use tokio::process::Command;

/// Name of the workspace.
pub(crate) const WORKSPACE: &str = "dates";

const FILES: &[(&str, &str)] = &[
    ("package.json", include_str!("project/package.json")),
    ("README.md", include_str!("project/README.md")),
    ("src/dates.js", include_str!("project/src/dates.js")),
    ("test/dates.test.js", include_str!("project/test/dates.test.js")),
];

/// See the module.
pub(crate) struct Project {
    folder: PathBuf,
}

impl Project {
    /// Writes the project into its workspace and makes its first commit.
    pub(crate) async fn create(workspaces: &Path) -> anyhow::Result<Self> {
        let folder = workspaces.join(WORKSPACE);
        for (name, text) in FILES {
            let path = folder.join(name);
            let parent = path.parent().context("a file without a folder")?;
            std::fs::create_dir_all(parent)?;
            std::fs::write(&path, text)?;
        }
        let project = Self { folder };
        project.git(&["init", "--quiet", "--initial-branch=main"]).await?;
        // The agent's commits need a name, and this machine may have set none.
        project.git(&["config", "user.name", "demo"]).await?;
        project.git(&["config", "user.email", "demo@example.invalid"]).await?;
        project.git(&["config", "commit.gpgsign", "false"]).await?;
        project.git(&["add", "."]).await?;
        project.git(&["commit", "--quiet", "--message", "Read dates"]).await?;
        Ok(project)
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether its tests pass.
    pub(crate) async fn tests_pass(&self) -> anyhow::Result<bool> {
        Ok(self.run("node", &["--test"]).await?.status.success())
    }

    /// Subjects of its commits, newest first.
    pub(crate) async fn commits(&self) -> anyhow::Result<Vec<String>> {
        let log = self.git(&["log", "--format=%s"]).await?;
        Ok(log.lines().map(str::to_owned).collect())
    }

    async fn git(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run("git", arguments).await?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "git {} failed: {said}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    async fn run(&self, program: &str, arguments: &[&str]) -> anyhow::Result<Output> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(&self.folder)
            // A test runner that starts us must not make `node --test` speak to it.
            .env_remove("NODE_TEST_CONTEXT")
            .kill_on_drop(true)
            .output()
            .await;
        match output {
            Ok(output) => Ok(output),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                bail!(
                    "the demo needs `{program}`, which is not installed: install it and run again"
                )
            }
            Err(error) => Err(error).context(format!("{program} cannot be started")),
        }
    }
}

//! Package manifests: one place for versions and lints.

use super::{File, Finding, Tree};

/// Every member takes versions and lints from the workspace.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_member = |it: &&File| it.path.ends_with("/Cargo.toml") && it.text.contains("[package]");
    tree.files.iter().filter(is_member).flat_map(check_manifest).collect()
}

fn check_manifest(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut section = "";
    let mut has_lints = false;
    for (line, text) in file.lines() {
        let text = text.trim();
        if text.starts_with('[') {
            section = text;
            continue;
        }
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        has_lints |= section == "[lints]" && text.replace(' ', "") == "workspace=true";
        if section.ends_with("dependencies]") && !is_from_workspace(text) {
            findings.push(Finding::new(
                &file.path,
                line,
                "a dependency with a version or path of its own: list it under \
                 [workspace.dependencies] and write `name.workspace = true`",
            ));
        }
    }
    if !has_lints {
        let message =
            "the workspace lints do not apply here: add `[lints]` with `workspace = true`";
        findings.push(Finding::new(&file.path, 1, message));
    }
    findings
}

/// A line inside a dependency table that is neither a version nor a path. Lists that continue on
/// lines of their own (features) have no `=` and pass.
fn is_from_workspace(line: &str) -> bool {
    !line.contains('=') || line.replace(' ', "").contains("workspace=true")
}

#[cfg(test)]
mod tests {
    use super::super::assert_findings;
    use super::*;

    fn manifest(dependencies: &str) -> Tree {
        let text = format!("[package]\nname = \"x\"\n[lints]\nworkspace = true\n{dependencies}");
        Tree::of(&[("crates/x/Cargo.toml", &text)])
    }

    #[test]
    fn versions_from_the_workspace_are_fine() {
        let tree = manifest(
            "[dependencies]\na.workspace = true\n# why\nb = { workspace = true, features = [\n\
             \"c\",\n] }\n[features]\nd = []\n",
        );
        assert_findings(&check(&tree), &[]);
    }

    #[test]
    fn a_version_of_its_own_is_found() {
        let tree = manifest("[dev-dependencies]\na = \"1\"\n");
        assert_findings(&check(&tree), &["crates/x/Cargo.toml:6: a dependency"]);
        let tree = manifest("[target.'cfg(unix)'.dependencies]\na = { version = \"1\" }\n");
        assert_findings(&check(&tree), &["crates/x/Cargo.toml:6: a dependency"]);
    }

    #[test]
    fn a_package_without_the_lints_is_found() {
        let tree = Tree::of(&[("crates/x/Cargo.toml", "[package]\nname = \"x\"\n")]);
        assert_findings(&check(&tree), &["crates/x/Cargo.toml:1: the workspace lints"]);
    }

    #[test]
    fn the_workspace_manifest_is_where_versions_belong() {
        let tree = Tree::of(&[("Cargo.toml", "[workspace.dependencies]\na = \"1\"\n")]);
        assert_findings(&check(&tree), &[]);
    }
}

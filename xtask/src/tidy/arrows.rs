//! Which crate may depend on which, and on what from outside.

use serde_json::Value;

use super::Finding;

/// What a crate may depend on inside the workspace.
#[derive(Debug, Clone, Copy)]
enum Arrows {
    To(&'static [&'static str]),
    Any,
}

const ARCHIVE: &str = "stepwell-archive";
const CORE: &str = "stepwell-core";
const PORTS: &str = "stepwell-ports";
const PROTO: &str = "stepwell-proto";
const RUNTIME: &str = "stepwell-runtime";

/// Allowed arrows between workspace crates. Dev-dependencies are exempt.
/// A new arrow needs a decision record in `docs/adr`.
const ARROWS: &[(&str, Arrows)] = &[
    (CORE, Arrows::To(&[])),
    ("stepwell-alloc", Arrows::To(&[])),
    (PORTS, Arrows::To(&[CORE])),
    (ARCHIVE, Arrows::To(&[CORE, PORTS])),
    ("stepwell-store-sqlite", Arrows::To(&[CORE, PORTS])),
    ("stepwell-store-postgres", Arrows::To(&[CORE, PORTS])),
    ("stepwell-llm", Arrows::To(&[CORE, PORTS])),
    (RUNTIME, Arrows::To(&[CORE, PORTS])),
    (PROTO, Arrows::To(&[])),
    ("stepwell-worker", Arrows::To(&[PROTO])),
    ("stepwell-server", Arrows::To(&[ARCHIVE, CORE, PORTS, RUNTIME, PROTO])),
    ("stepwell-sim", Arrows::To(&[CORE, PORTS, RUNTIME])),
    ("stepwell-cli", Arrows::Any),
    ("stepwell-bench", Arrows::Any),
    ("stepwell-tests", Arrows::Any),
    ("xtask", Arrows::Any),
];

/// All that the core may use from outside: each works without `std` and does no IO.
const CORE_MAY_USE: &[&str] =
    &["blake3", "memchr", "ryu-js", "serde", "serde_json", "thiserror", "ulid"];

/// Programs may give up with a message; libraries have errors that their callers can tell apart.
const ANYHOW_USERS: &[&str] = &["stepwell-cli", "stepwell-bench", "stepwell-tests", "xtask"];

/// Checks the crate table, the core's dependencies and who uses `anyhow`.
pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in members(metadata) {
        let Some((_, arrows)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            findings.push(package.finding(
                "is not in the crate table: add it to ARROWS in xtask/src/tidy/arrows.rs and to \
                 ARCHITECTURE.md",
            ));
            continue;
        };
        for dependency in package.dependencies() {
            let allowed = match arrows {
                Arrows::Any => true,
                Arrows::To(allowed) => allowed.contains(&dependency.name),
            };
            if dependency.is_internal && !allowed {
                findings.push(package.finding(&format!(
                    "must not depend on {}: move the code to a crate that may, or add the arrow \
                     with a decision record",
                    dependency.name
                )));
            }
            findings.extend(check_external(&package, &dependency));
        }
        if !package.is_in_own_folder() {
            findings.push(package.finding("lies in a folder of another name: give both one name"));
        }
    }
    findings
}

fn check_external(package: &Package<'_>, dependency: &Dependency<'_>) -> Option<Finding> {
    if dependency.is_internal {
        return None;
    }
    let name = dependency.name;
    if package.name == CORE && !CORE_MAY_USE.contains(&name) {
        return Some(package.finding(&format!(
            "must stay pure and so must not use {name}: do that work at the edge, or add it to \
             CORE_MAY_USE in xtask/src/tidy/arrows.rs with its reason"
        )));
    }
    if name == "anyhow" && !ANYHOW_USERS.contains(&package.name) {
        return Some(package.finding(
            "is a library and must not use anyhow: write an error enum that callers can match",
        ));
    }
    None
}

/// Name and folder (relative to the root) of each workspace crate.
pub(super) fn member_folders(metadata: &Value) -> Vec<(String, String)> {
    let folder = |it: Package<'_>| (it.name.to_owned(), it.folder.to_owned());
    members(metadata).into_iter().map(folder).collect()
}

struct Package<'a> {
    name: &'a str,
    /// Relative to the workspace root.
    folder: &'a str,
    json: &'a Value,
}

struct Dependency<'a> {
    name: &'a str,
    is_internal: bool,
}

fn members(metadata: &Value) -> Vec<Package<'_>> {
    let root = text(metadata, "workspace_root");
    let packages = metadata.get("packages").and_then(Value::as_array);
    let package = |json| {
        let manifest = text(json, "manifest_path");
        let inside = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/');
        let folder = inside.trim_end_matches("Cargo.toml").trim_end_matches('/');
        Package { name: text(json, "name"), folder, json }
    };
    packages.into_iter().flatten().map(package).collect()
}

impl<'a> Package<'a> {
    /// Normal and build dependencies.
    fn dependencies(&self) -> impl Iterator<Item = Dependency<'a>> {
        let all = self.json.get("dependencies").and_then(Value::as_array);
        all.into_iter().flatten().filter(|it| text(it, "kind") != "dev").map(|it| Dependency {
            name: text(it, "name"),
            is_internal: it.get("path").is_some_and(Value::is_string),
        })
    }

    /// Crates lie in `crates/<name>`; only the black-box tests have a name that says more.
    fn is_in_own_folder(&self) -> bool {
        self.folder == format!("crates/{}", self.name)
            || self.folder == self.name
            || (self.name == "stepwell-tests" && self.folder == "tests")
    }

    fn finding(&self, what: &str) -> Finding {
        Finding::new(&format!("{}/Cargo.toml", self.folder), 1, format!("{} {what}", self.name))
    }
}

fn text<'a>(json: &'a Value, key: &str) -> &'a str {
    json.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::assert_findings;
    use super::*;

    /// A workspace of one crate with one dependency.
    fn metadata(name: &str, dependency: &Value) -> Value {
        json!({
            "workspace_root": "/somewhere",
            "packages": [{
                "name": name,
                "manifest_path": format!("/somewhere/crates/{name}/Cargo.toml"),
                "dependencies": [dependency],
            }],
        })
    }

    fn internal(name: &str, kind: &Value) -> Value {
        json!({ "name": name, "kind": kind, "path": format!("/somewhere/crates/{name}") })
    }

    fn external(name: &str) -> Value {
        json!({ "name": name, "kind": null })
    }

    #[test]
    fn an_arrow_in_the_table_is_fine() {
        let good = metadata("stepwell-llm", &internal("stepwell-core", &Value::Null));
        assert_findings(&check(&good), &[]);
        let anything = metadata("stepwell-cli", &internal("stepwell-store-sqlite", &Value::Null));
        assert_findings(&check(&anything), &[]);
    }

    #[test]
    fn an_arrow_outside_the_table_is_found() {
        for kind in [Value::Null, json!("build")] {
            let bad = metadata("stepwell-core", &internal("stepwell-ports", &kind));
            let expected = "crates/stepwell-core/Cargo.toml:1: stepwell-core must not depend on \
                            stepwell-ports";
            assert_findings(&check(&bad), &[expected]);
        }
    }

    #[test]
    fn tests_may_depend_on_anything() {
        let dev = metadata("stepwell-runtime", &internal("stepwell-sim", &json!("dev")));
        assert_findings(&check(&dev), &[]);
    }

    #[test]
    fn a_crate_that_nobody_listed_is_found() {
        let unknown = metadata("stepwell-extra", &external("serde"));
        assert_findings(&check(&unknown), &["crates/stepwell-extra/Cargo.toml:1: "]);
    }

    #[test]
    fn the_core_uses_only_what_is_listed() {
        assert_findings(&check(&metadata("stepwell-core", &external("serde"))), &[]);
        let impure = metadata("stepwell-core", &external("tokio"));
        let expected = "crates/stepwell-core/Cargo.toml:1: stepwell-core must stay pure";
        assert_findings(&check(&impure), &[expected]);
    }

    #[test]
    fn a_library_does_not_use_anyhow() {
        assert_findings(&check(&metadata("stepwell-cli", &external("anyhow"))), &[]);
        let vague = metadata("stepwell-llm", &external("anyhow"));
        assert_findings(&check(&vague), &["crates/stepwell-llm/Cargo.toml:1: stepwell-llm is a"]);
    }

    #[test]
    fn a_folder_of_another_name_is_found() {
        let mut moved = metadata("stepwell-llm", &external("serde"));
        moved["packages"][0]["manifest_path"] = json!("/somewhere/crates/llm/Cargo.toml");
        assert_findings(&check(&moved), &["crates/llm/Cargo.toml:1: stepwell-llm lies in"]);
    }
}

//! Proto files: the package is the path, and zero means "not said".

use super::{File, Finding, Tree};

/// Checks every `.proto` file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let proto = tree.files.iter().filter(|it| it.has_extension(&["proto"]));
    proto.flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let expected = package_of(&file.path);
    let declared = file.lines().find_map(|(line, it)| Some((line, declared_package(it)?)));
    match declared {
        Some((_, package)) if package == expected => {}
        Some((line, package)) => {
            let message = format!("package {package} in a folder of {expected}: make them agree");
            findings.push(Finding::new(&file.path, line, message));
        }
        None => {
            let message = format!("no package: write `package {expected};`");
            findings.push(Finding::new(&file.path, 1, message));
        }
    }
    for (line, text) in file.lines() {
        // A field's number is never 0, so this is an enum's first value.
        let value = text.trim().strip_suffix("= 0;").map(str::trim);
        if value.is_some_and(|it| !it.starts_with("//") && !it.ends_with("_UNSPECIFIED")) {
            let message = "an enum's zero is what old clients send unasked: call it .._UNSPECIFIED";
            findings.push(Finding::new(&file.path, line, message));
        }
    }
    findings
}

/// `stepwell.v1` for `proto/stepwell/v1/session.proto`.
fn package_of(path: &str) -> String {
    let inside = path.split_once("proto/").map_or(path, |(_, it)| it);
    inside.rsplit_once('/').map_or("", |(folder, _)| folder).replace('/', ".")
}

fn declared_package(line: &str) -> Option<&str> {
    line.strip_prefix("package ")?.trim().strip_suffix(';')
}

#[cfg(test)]
mod tests {
    use super::super::assert_findings;
    use super::*;

    const PATH: &str = "proto/stepwell/v1/a.proto";

    #[track_caller]
    fn check_text(text: &str, expected: &[&str]) {
        assert_findings(&check(&Tree::of(&[(PATH, text)])), expected);
    }

    #[test]
    fn the_package_is_the_path() {
        check_text("syntax = \"proto3\";\npackage stepwell.v1;\n", &[]);
        check_text("\npackage stepwell.v2;\n", &["proto/stepwell/v1/a.proto:2: package stepwell"]);
        check_text("syntax = \"proto3\";\n", &["proto/stepwell/v1/a.proto:1: no package"]);
    }

    #[test]
    fn zero_is_unspecified() {
        let head = "package stepwell.v1;\nenum Status {\n";
        check_text(&format!("{head}  STATUS_UNSPECIFIED = 0;\n}}\n"), &[]);
        let bad = format!("{head}  STATUS_OPEN = 0;\n}}\n");
        check_text(&bad, &["proto/stepwell/v1/a.proto:3: an enum's zero"]);
    }
}

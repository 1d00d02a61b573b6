//! Sizes above which a file or a function has more than one reason to change.

use super::{File, Finding, Tree};

/// Lines of a file without its tests.
const FILE_LINES_MAX: usize = 600;
/// Lines of a file that is all tests: cases are long and alike.
const TEST_FILE_LINES_MAX: usize = 900;
/// Lines of a function from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Other files that people write and read like code.
const OTHER_EXTENSIONS: &[&str] = &["ts", "tsx", "css", "proto", "sql"];

/// Checks the length of files and of functions outside tests (clippy watches those inside).
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.rust {
        let (lines, lines_max) = if file.is_test {
            (file.line_count(), TEST_FILE_LINES_MAX)
        } else {
            (file.production_lines(), FILE_LINES_MAX)
        };
        findings.extend(too_long(&file.path, lines, lines_max));
        for function in file.functions() {
            let lines = function.last_line - function.first_line + 1;
            if lines > FUNCTION_LINES_MAX && !file.is_test_line(function.first_line) {
                let name = &function.name;
                findings.push(Finding::new(
                    &file.path,
                    function.first_line,
                    format!(
                        "`{name}` has {lines} lines, more than {FUNCTION_LINES_MAX}: take a part \
                         out that has a name of its own"
                    ),
                ));
            }
        }
    }
    for file in tree.files.iter().filter(|it| it.has_extension(OTHER_EXTENSIONS)) {
        let lines_max = if is_web_test(file) { TEST_FILE_LINES_MAX } else { FILE_LINES_MAX };
        findings.extend(too_long(&file.path, file.text.lines().count(), lines_max));
    }
    findings
}

fn too_long(path: &str, lines: usize, lines_max: usize) -> Option<Finding> {
    let message = format!("{lines} lines, more than {lines_max}: split by command or concern");
    (lines > lines_max).then(|| Finding::new(path, 1, message))
}

fn is_web_test(file: &File) -> bool {
    file.path.contains(".test.") || file.path.contains(".spec.")
}

#[cfg(test)]
mod tests {
    use super::super::assert_findings;
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    a();\n".repeat(lines - 2))
    }

    #[track_caller]
    fn check_one(path: &str, text: &str, expected: &[&str]) {
        assert_findings(&check(&Tree::of(&[(path, text)])), expected);
    }

    #[test]
    fn a_file_at_the_limit_is_fine() {
        check_one("crates/x/src/a.rs", &"// a\n".repeat(600), &[]);
        check_one("crates/x/src/a.rs", &"// a\n".repeat(601), &["crates/x/src/a.rs:1: 601 lines"]);
    }

    #[test]
    fn tests_at_the_end_do_not_count() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// a\n".repeat(600));
        let text = format!("{}{tests}", "// a\n".repeat(600));
        check_one("crates/x/src/a.rs", &text, &[]);
    }

    #[test]
    fn a_test_file_may_be_longer() {
        check_one("tests/tests/a.rs", &"// a\n".repeat(900), &[]);
        check_one("tests/tests/a.rs", &"// a\n".repeat(901), &["tests/tests/a.rs:1: 901 lines"]);
    }

    #[test]
    fn a_function_above_the_limit_is_named() {
        check_one("crates/x/src/a.rs", &function(70), &[]);
        check_one("crates/x/src/a.rs", &function(71), &["crates/x/src/a.rs:1: `long` has 71"]);
    }

    #[test]
    fn a_long_test_is_left_to_clippy() {
        let text = format!("#[test]\n{}", function(71));
        check_one("crates/x/src/a.rs", &text, &[]);
    }

    #[test]
    fn schemas_and_scripts_have_the_same_limit() {
        check_one("proto/x/v1/a.proto", &"// a\n".repeat(601), &["proto/x/v1/a.proto:1: 601"]);
        check_one("docs/a.md", &"a\n".repeat(2000), &[]);
    }
}

//! A Rust file as the checks see it: code and comments apart, and which lines are test code.
//!
//! This is a reading of the tokens, not a parser: enough to know strings and comments from code
//! and to find the end of an item, in a few milliseconds for the whole checkout.

mod mask;
mod tokens;

use super::File;
pub(super) use tokens::{Token, item_end};

/// One Rust file.
#[derive(Debug)]
pub(super) struct RustFile {
    /// Relative to the repository root.
    pub(super) path: String,
    /// The text with comments and the insides of strings blanked, line by line as in the file.
    pub(super) code: String,
    /// The text with everything but comments blanked.
    pub(super) comments: String,
    /// The words and signs of `code`.
    pub(super) tokens: Vec<Token>,
    /// The whole file is test code: it lies in a test folder or hangs on a `#[cfg(test)] mod`.
    pub(super) is_test: bool,
    /// For each line, whether it belongs to a test item. All true when `is_test`.
    test_lines: Vec<bool>,
}

/// A function, as far as the size check cares.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// Its name.
    pub(super) name: String,
    /// The line with `fn`.
    pub(super) first_line: usize,
    /// The line with the closing brace.
    pub(super) last_line: usize,
}

impl RustFile {
    fn read(file: &File) -> Self {
        let masked = mask::mask(&file.text);
        let tokens = tokens::tokens(&masked.code);
        let line_count = file.text.lines().count();
        let mut test_lines = vec![false; line_count];
        let mut is_test = is_test_path(&file.path);
        for (first, last) in tokens::test_items(&tokens) {
            match last {
                Some(last) => mark(&mut test_lines, first, last),
                None => is_test = true,
            }
        }
        let mut file = Self {
            path: file.path.clone(),
            code: masked.code,
            comments: masked.comments,
            tokens,
            is_test: false,
            test_lines,
        };
        if is_test {
            file.become_test();
        }
        file
    }

    fn become_test(&mut self) {
        self.is_test = true;
        self.test_lines.fill(true);
    }

    /// The code lines with their numbers, and whether each is test code.
    pub(super) fn code_lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        let tests = self.test_lines.iter().copied().chain(std::iter::repeat(false));
        (1..).zip(self.code.lines()).zip(tests).map(|((line, code), test)| (line, code, test))
    }

    /// The comment lines with their numbers.
    pub(super) fn comment_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.comments.lines())
    }

    /// How many lines are not test code.
    pub(super) fn production_lines(&self) -> usize {
        self.test_lines.iter().filter(|is_test| !**is_test).count()
    }

    /// How many lines the file has.
    pub(super) fn line_count(&self) -> usize {
        self.test_lines.len()
    }

    /// True when this line (from 1) is test code.
    pub(super) fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.get(line.saturating_sub(1)).copied().unwrap_or(false)
    }

    /// The functions with a body, closures left out.
    pub(super) fn functions(&self) -> Vec<Function> {
        tokens::functions(&self.tokens)
    }
}

/// Reads all Rust files, and follows `#[cfg(test)] mod name;` to the files that it makes tests.
pub(super) fn read_all(files: &[File]) -> Vec<RustFile> {
    let rust = files.iter().filter(|it| it.has_extension(&["rs"]));
    let mut rust: Vec<RustFile> = rust.map(RustFile::read).collect();
    let mut test_modules = Vec::new();
    for file in &rust {
        let folder = child_folder(&file.path);
        let names = tokens::test_modules(&file.tokens);
        test_modules.extend(names.into_iter().map(|name| format!("{folder}/{name}")));
    }
    for file in &mut rust {
        let is_below = |it: &String| {
            file.path
                .strip_prefix(it.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        if test_modules.iter().any(is_below) {
            file.become_test();
        }
    }
    rust
}

/// The folder in which a file's `mod name;` are looked for.
fn child_folder(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    }
}

fn is_test_path(path: &str) -> bool {
    let mut folders = path.split('/');
    let name = folders.next_back().unwrap_or_default();
    name == "tests.rs" || name.ends_with("_tests.rs") || folders.any(|it| it == "tests")
}

fn mark(lines: &mut [bool], first: usize, last: usize) {
    let count = (last + 1).saturating_sub(first);
    for line in lines.iter_mut().skip(first.saturating_sub(1)).take(count) {
        *line = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Vec<RustFile> {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        read_all(&files.iter().map(file).collect::<Vec<_>>())
    }

    #[test]
    fn lines_of_a_test_module_are_test_lines() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let files = read(&[("crates/x/src/lib.rs", text)]);
        let tests: Vec<usize> =
            files[0].code_lines().filter(|(_, _, test)| *test).map(|(line, _, _)| line).collect();
        assert_eq!(tests, [2, 3, 4, 5]);
        assert_eq!(files[0].production_lines(), 2);
    }

    #[test]
    fn a_module_file_behind_cfg_test_is_a_test_file() {
        let files = read(&[
            ("crates/x/src/lib.rs", "#[cfg(test)]\nmod harness;\nmod real;\n"),
            ("crates/x/src/harness.rs", "fn a() {}\n"),
            ("crates/x/src/harness/deep.rs", "fn a() {}\n"),
            ("crates/x/src/real.rs", "#[cfg(test)] mod given;"),
            ("crates/x/src/real/given.rs", "fn a() {}\n"),
        ]);
        let tests: Vec<bool> = files.iter().map(|it| it.is_test).collect();
        assert_eq!(tests, [false, true, true, false, true]);
    }

    #[test]
    fn test_folders_hold_tests() {
        for path in ["tests/src/lib.rs", "crates/x/tests/a.rs", "crates/x/src/decide/tests.rs"] {
            assert!(is_test_path(path), "{path}");
        }
        for path in ["crates/x/src/latest.rs", "xtask/src/test.rs", "crates/x/src/lib.rs"] {
            assert!(!is_test_path(path), "{path}");
        }
    }

    #[test]
    fn an_inner_cfg_test_makes_the_whole_file_a_test() {
        let files = read(&[("crates/x/src/a.rs", "//! Doc.\n#![cfg(test)]\nfn a() {}\n")]);
        assert!(files[0].is_test);
    }
}

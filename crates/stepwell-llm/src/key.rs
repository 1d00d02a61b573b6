//! Where a key comes from: an environment variable, or the file that another one names.
//!
//! `OPENAI_API_KEY` holds a key; `OPENAI_API_KEY_FILE` holds the path of a file with one, as secrets
//! are handed to containers. It is read for each call, so that a changed key counts at once.
//!
//! Invariant: no message of this module contains a key or what a file says.

use std::fs::{File, metadata};
use std::io::{Error, Read as _};

/// Behind the name of a variable: it names a file.
const FILE_SUFFIX: &str = "_FILE";

/// Bytes of a key's file, at most. Keys have some hundred at most, tokens some thousand.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// The key of the environment variable `name`, by `variable`, a look into the environment.
///
/// # Errors
/// What is missing, and what to do, in words.
pub fn find(name: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    // A line end behind a key is no part of it.
    let text = |value: String| Some(value.trim().to_owned()).filter(|it| !it.is_empty());
    if let Some(key) = variable(name).and_then(text) {
        return Ok(key);
    }
    let file_name = format!("{name}{FILE_SUFFIX}");
    let Some(path) = variable(&file_name).and_then(text) else {
        return Err(format!(
            "the environment variable {name}, which must hold the key of the model server, is not \
             set where Stepwell runs, and neither is {file_name}, which may name a file with it: \
             set one of them and start again"
        ));
    };
    let key = read(&path).map_err(|error| {
        format!("the key's file {path} (environment variable {file_name}) cannot be read: {error}")
    })?;
    let problem =
        |what| Err(format!("the key's file {path} (environment variable {file_name}) {what}"));
    match text(key) {
        None => problem("is empty"),
        Some(key) if key.lines().nth(1).is_some() => {
            problem("has several lines: it must hold the key and nothing else")
        }
        Some(key) => Ok(key),
    }
}

/// A pipe or a device is refused before it is opened: to open one may wait for ever.
fn read(path: &str) -> std::io::Result<String> {
    if !metadata(path)?.is_file() {
        return Err(Error::other("it is no regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: Result<&str, &str>) {
        let look = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, it)| (*it).to_owned())
        };
        match (find("KEY", look), expected) {
            (Ok(key), Ok(expected)) => assert_eq!(key, expected),
            (Err(problem), Err(says)) => assert!(problem.contains(says), "{problem}"),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn a_key_comes_from_its_variable_or_from_a_file() {
        let folder = std::env::temp_dir().join(format!("stepwell-key-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (good, empty) = (path("good", "sk-123456\n"), path("empty", "\n"));
        check(&[("KEY", " sk-654321\n"), ("KEY_FILE", &good)], Ok("sk-654321"));
        check(&[("KEY", ""), ("KEY_FILE", &good)], Ok("sk-123456"));
        check(&[("KEY_FILE", &empty)], Err("is empty"));
        let long = path("long", "# the key\nsk-123456\n");
        check(&[("KEY_FILE", &long)], Err("has several lines"));
        check(&[("KEY_FILE", "/nowhere/key")], Err("/nowhere/key (environment variable KEY_FILE)"));
        check(&[("KEY_FILE", folder.to_str().unwrap())], Err("it is no regular file"));
        check(&[("KEY_FILE", "/dev/zero")], Err("it is no regular file"));
        check(&[], Err("the environment variable KEY, which"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

//! Builds the web viewer with npm, so that one cargo command makes the whole server, and lists its
//! files in `web_files.rs` for the server to embed.
//!
//! Invariant: nothing that git tracks is written; nothing runs when nothing it reads has changed.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

type Failure = Box<dyn Error>;

/// What the viewer is made of, relative to its folder. `node_modules`, `gen` and `dist` are made.
const SOURCES: &[&str] = &[
    "src",
    "public",
    "index.html",
    "package.json",
    "package-lock.json",
    "vite.config.ts",
    "tsconfig.json",
    "buf.gen.yaml",
    "../proto",
];

/// Oldest Node.js that the tools run on: major, minor.
const NODE_MIN: (u32, u32) = (20, 19);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let here = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let viewer = here.join("../../web-ui").canonicalize()?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", viewer.join(source).display());
    }
    let made = out.join("web");
    build(&viewer, &made)?;
    let mut files = Vec::new();
    list(&made, &mut files)?;
    files.sort();
    fs::write(out.join("web_files.rs"), embedding(&made, &files)?)?;
    Ok(())
}

/// Fills `made` with the viewer. Only one build at a time may fill `node_modules`.
fn build(viewer: &Path, made: &Path) -> Result<(), Failure> {
    check_node()?;
    let only_one = File::open(viewer.join("package.json"))?;
    only_one.lock()?;
    if !is_installed(viewer) {
        npm(viewer, &["ci", "--no-audit", "--no-fund"])?;
    }
    let made = made.to_str().ok_or("the path of the build folder is not UTF-8")?;
    npm(viewer, &["run", "build", "--", "--outDir", made, "--emptyOutDir", "--logLevel", "warn"])
}

/// Whether `node_modules` holds what the lock file says; `npm ci` leaves a copy of it there.
fn is_installed(viewer: &Path) -> bool {
    let wanted = fs::read(viewer.join("package-lock.json")).ok();
    let installed = fs::read(viewer.join("node_modules/.installed-lock.json")).ok();
    wanted.is_some() && wanted == installed
}

fn check_node() -> Result<(), Failure> {
    let (major_min, minor_min) = NODE_MIN;
    let need = format!(
        "the web viewer is built with Node.js {major_min}.{minor_min} or newer, and npm: install \
         them (https://nodejs.org, or the packages nodejs and npm) and build again"
    );
    let output = Command::new("node").arg("--version").output();
    let output = output.map_err(|error| format!("node cannot be started ({error}): {need}"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let mut numbers = version.trim_start_matches('v').split('.').map(|it| it.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= NODE_MIN => Ok(()),
        _ => Err(format!("node is {version:?}: {need}").into()),
    }
}

fn npm(viewer: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let words = arguments.join(" ");
    let output = Command::new("npm").args(arguments).current_dir(viewer).output();
    let output = output.map_err(|error| format!("npm cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("`npm {words}` failed in web-ui/:\n{}", String::from_utf8_lossy(&said)).into())
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// The files with their addresses, sorted.
fn embedding(root: &Path, files: &[PathBuf]) -> Result<String, Failure> {
    let mut code = String::from("/// Address and content of each file, by address.\n");
    writeln!(code, "static FILES: &[(&str, &[u8])] = &[")?;
    for file in files {
        let not_text = "a file's name is not UTF-8";
        let address = format!("/{}", file.strip_prefix(root)?.to_str().ok_or(not_text)?);
        // From where this very code lies, so that a folder of builds can be moved.
        writeln!(code, "    ({address:?}, include_bytes!(concat!(\"web\", {address:?}))),")?;
    }
    writeln!(code, "];")?;
    Ok(code)
}

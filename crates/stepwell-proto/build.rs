//! Compiles `proto/` with protox, so that no `protoc` is needed.

use std::path::{Path, PathBuf};

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Asked now and not when this was compiled: build folders are moved and shared.
    let here = std::env::var("CARGO_MANIFEST_DIR")?;
    let root = Path::new(&here).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let folder = root.join("stepwell/v1");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "proto") {
            files.push(path);
        }
    }
    files.sort();
    let descriptors = protox::compile(&files, [&root])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}

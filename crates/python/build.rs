//! A fingerprint of the sources that the engine is built from: CRC-32 (ISO-HDLC) of every Rust file's path and content,
//! in order of paths. `syncline/binding.py` computes the same and refuses an engine of other sources.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Crates of the collective library, which the engine knows nothing of.
const APART: [&str; 2] = ["runtime", "nccl"];

/// The Rust files below a folder.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            rust_files(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// CRC-32 of more bytes.
fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    const REVERSED_POLYNOMIAL: u32 = 0xedb8_8320;
    let step = |crc: u32| if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ REVERSED_POLYNOMIAL };
    !bytes.iter().fold(!crc, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

fn main() -> io::Result<()> {
    let crates = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("..");
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates)? {
        let entry = entry?;
        let sources = entry.path().join("src");
        if sources.is_dir() && !APART.iter().any(|name| entry.file_name() == *name) {
            println!("cargo:rerun-if-changed={}", sources.display());
            rust_files(&sources, &mut files)?;
        }
    }
    let name = |file: &PathBuf| file.strip_prefix(&crates).unwrap_or(file).to_string_lossy().replace('\\', "/");
    let mut named: Vec<(String, PathBuf)> = files.into_iter().map(|file| (name(&file), file)).collect();
    named.sort();
    let mut crc = 0;
    for (name, file) in named {
        crc = crc32(crc32(crc, name.as_bytes()), &fs::read(file)?);
    }
    println!("cargo:rustc-env=SYNCLINE_SOURCES={crc}");
    Ok(())
}

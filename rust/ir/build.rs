//! Hashes the sources that say what the bytes of a program mean, so that bytes of another meaning are
//! told from those of this one.
#![allow(
    clippy::disallowed_methods,
    reason = "cargo tells build scripts of their package through the environment"
)]

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let crates = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let mut files = Vec::new();
    for sources in [crates.join("ir/src"), crates.join("core/src")] {
        println!("cargo:rerun-if-changed={}", sources.display());
        collect(&sources, &mut files);
    }
    files.sort();
    let mut hash = Fnv::new();
    for file in &files {
        let name = file.strip_prefix(&crates).expect("collected below it");
        hash.write(name.to_string_lossy().as_bytes());
        hash.write(&fs::read(file).unwrap_or_default());
    }
    println!("cargo:rustc-env=PALLAS_RS_FORMAT={:016x}", hash.0);
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

/// FNV-1a, which unlike the standard hasher is the same in every version of Rust.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

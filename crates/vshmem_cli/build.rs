//! Which commit this is, for `vshmem --version`: VSHMEM_COMMIT for the compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

/// In a tarball of `git archive`, git has written the commit here (export-subst).
const EXPORTED: &str = "commit.txt";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={EXPORTED}");
    println!("cargo:rustc-env=VSHMEM_COMMIT={}", commit());
}

fn commit() -> String {
    if let Some(exported) = exported() {
        return format!("commit {exported}");
    }
    if !is_release() {
        // Tests are built after each commit, and need not be built again for its name.
        return "a build for tests".to_owned();
    }
    match git(&["rev-parse", "--short", "HEAD"]) {
        Some(commit) => {
            // Written at each commit and checkout, whichever branch it is.
            if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
                println!("cargo:rerun-if-changed={log}");
            }
            format!("commit {commit}")
        }
        None => "unknown commit".to_owned(),
    }
}

fn exported() -> Option<String> {
    let text = std::fs::read_to_string(EXPORTED).ok()?;
    let commit = text.trim();
    let is_commit = !commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| commit.to_owned())
}

/// The directory of the profile is three above the one that a build script writes to; those of
/// `make build` are release and command.
fn is_release() -> bool {
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    let profile = out.ancestors().nth(3).and_then(Path::file_name).map(ToOwned::to_owned);
    profile.is_some_and(|profile| profile == "release" || profile == "command")
}

/// What git says, if these sources are a checkout, and not a part of somebody else's.
fn git(words: &[&str]) -> Option<String> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.parent()?;
    if !top.join(".git").exists() {
        return None;
    }
    let done = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(done.stdout).ok()?;
    (done.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

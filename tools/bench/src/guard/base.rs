//! A build to compare with: a directory that has one, or a commit that is built.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Watch;
use crate::error::{Error, Result};

/// What a build has to have.
const FILES: [&str; 2] = ["vshmem", "libvshmem_preload.so"];

/// A build of vshmem.
#[derive(Debug, Clone)]
pub struct Build {
    /// As it was named.
    pub name: String,
    /// Its `vshmem`; the preload library lies beside it.
    pub command: PathBuf,
}

impl Build {
    /// The one in a directory.
    ///
    /// # Errors
    /// Says which file is not there.
    pub fn in_directory(name: &str, directory: &Path) -> Result<Self> {
        for file in FILES {
            if !directory.join(file).is_file() {
                return Err(Error::Absent {
                    what: directory.join(file).display().to_string(),
                    remedy: "build it there (`make build`), or name a commit".into(),
                });
            }
        }
        let directory =
            directory.canonicalize().map_err(Error::io(format!("find {}", directory.display())))?;
        Ok(Self { name: name.to_owned(), command: directory.join(FILES[0]) })
    }
}

/// That of a directory of that name, or of that commit of the source tree that this is run in. A
/// commit is built once: its build stays in `target/guard`.
///
/// # Errors
/// When there is neither, or the commit cannot be built.
pub fn build_of(base: &str, watch: &dyn Watch) -> Result<Build> {
    let directory = Path::new(base);
    if directory.is_dir() {
        return Build::in_directory(base, directory);
    }
    let named = git(&["rev-parse", "--verify", "--quiet", &format!("{base}^{{commit}}")]);
    let commit = named.map_err(|_| Error::Absent {
        what: format!(
            "{base}, a directory with {}, or a commit of the source tree here,",
            FILES.join(" and ")
        ),
        remedy: "name another (`git log --oneline`), and run this in the source tree".into(),
    })?;
    let commit = commit.trim();
    let target = target_of(commit);
    if let Ok(build) = Build::in_directory(base, &target.join("release")) {
        return Ok(build);
    }
    watch.tell(&format!("builds {base} in {}: some minutes, once", target.display()));
    build(commit, &target)?;
    Build::in_directory(base, &target.join("release"))
}

/// Where a build of this source tree lies that a commit has: `target/guard/COMMIT`.
fn target_of(commit: &str) -> PathBuf {
    Path::new("target/guard").join(commit)
}

/// In a worktree that goes again.
fn build(commit: &str, target: &Path) -> Result<()> {
    std::fs::create_dir_all(target).map_err(Error::io(format!("make {}", target.display())))?;
    let target = target.canonicalize().map_err(Error::io(format!("find {}", target.display())))?;
    let tree = target.join("tree");
    let place = tree.display().to_string();
    // One that a build which was broken off has left.
    let _ = git(&["worktree", "remove", "--force", &place]);
    git(&["worktree", "add", "--force", "--detach", &place, commit])?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&tree).env("CARGO_TARGET_DIR", &target);
    cargo.args(["build", "--release", "-p", "vshmem_cli", "-p", "vshmem_preload"]);
    let built = said(&mut cargo).and_then(|_| smaller_libraries(&tree, &target.join("release")));
    let _ = git(&["worktree", "remove", "--force", &place]);
    built.map(drop)
}

/// The libraries with a part of the calls, which the linker makes and not cargo. A commit from
/// before there were several has one, or none.
fn smaller_libraries(tree: &Path, directory: &Path) -> Result<String> {
    let [all, one] = ["link_preload", "preload_sysv"].map(|name| tree.join("packaging").join(name));
    if all.is_file() {
        return said(Command::new(all).arg(directory));
    }
    if !one.is_file() {
        return Ok(String::new());
    }
    let [archive, library] = ["libvshmem_preload.a", "libvshmem_preload_sysv.so"];
    said(Command::new(one).arg(directory.join(archive)).arg(directory.join(library)))
}

fn git(words: &[&str]) -> Result<String> {
    said(Command::new("git").args(words))
}

/// What a command has printed.
fn said(command: &mut Command) -> Result<String> {
    let shown = |word: &OsStr| word.to_string_lossy().into_owned();
    let words: Vec<String> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(shown).collect();
    let line = words.join(" ");
    let output =
        command.stdin(Stdio::null()).output().map_err(Error::io(format!("run `{line}`")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = complaint.trim().lines().rev().take(5).collect();
    Err(Error::Program {
        command: line,
        place: "in the source tree".into(),
        status: output.status.to_string(),
        output: last.into_iter().rev().collect::<Vec<_>>().join("\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_a_build_says_what_is_missing() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("vshmem"), "").unwrap();
        let error = Build::in_directory("x", place.path()).unwrap_err().to_string();
        assert!(error.contains("libvshmem_preload.so") && error.contains("make build"), "{error}");
        std::fs::write(place.path().join("libvshmem_preload.so"), "").unwrap();
        assert!(Build::in_directory("x", place.path()).unwrap().command.ends_with("vshmem"));
    }
}

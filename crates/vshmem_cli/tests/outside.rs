//! Programs that run outside of the pool, because the library is not loaded into them: said once
//! for all that a `vshmem run` has started, where somebody reads it.

mod rig;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use rig::{Name, library_is_beside, until};

/// Programs in a directory, and a pool.
struct Setup {
    directory: tempfile::TempDir,
    pool: Name,
}

impl Setup {
    /// `None`, and a line that says so, where there is no library or no C compiler.
    fn new(test: &str) -> Option<Self> {
        if !library_is_beside() {
            println!("SKIPPED: no libvshmem_preload.so beside the command");
            return None;
        }
        let setup = Self { directory: tempfile::tempdir().unwrap(), pool: Name::with_pool(test) };
        // For programs of another user's.
        fs::set_permissions(setup.directory.path(), Permissions::from_mode(0o755)).unwrap();
        fs::write(setup.path("it.c"), "int main(void) { return 0; }\n").unwrap();
        Some(setup)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn compile(&self, name: &str, options: &[&str]) -> bool {
        let mut cc = Command::new("cc");
        let built = cc.args(options).arg("-o").arg(self.path(name)).arg(self.path("it.c"));
        let is_built = built.output().is_ok_and(|output| output.status.success());
        if !is_built {
            println!("SKIPPED: cc {} does not work here", options.join(" "));
        }
        is_built
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.path(name);
        let text = text.replace("HERE", self.directory.path().to_str().unwrap());
        rig::write_program(&path, text.as_bytes());
    }

    fn run(&self, words: &[&str]) -> Command {
        let mut command = rig::vshmem();
        command.args(["run", "--pool", &self.pool.0, "--"]).args(words);
        command.current_dir(self.directory.path());
        command
    }

    /// What is said with VSHMEM_LOG, a line each.
    fn said(&self, words: &[&str]) -> Vec<String> {
        let output = self.run(words).env("VSHMEM_LOG", "1").output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        text.lines().filter(|line| line.starts_with("vshmem: ")).map(str::to_owned).collect()
    }

    /// What `vshmem ls --left` shows.
    fn left(&self) -> Vec<serde_json::Value> {
        let shown = rig::json(&["ls", "--left", "--pool", &self.pool.0, "--json"]);
        shown["left"].as_array().unwrap().clone()
    }

    fn says_once(&self, words: &[&str], parts: &[&str]) {
        let said = self.said(words);
        assert_eq!(said.len(), 1, "{words:?}: {said:?}");
        for part in parts.iter().chain(&[self.pool.0.as_str()]) {
            assert!(said[0].contains(part), "{words:?}: no {part:?} in {said:?}");
        }
    }
}

#[test]
fn a_static_program_below_a_script_is_named_once() {
    let Some(setup) = Setup::new("outside-script") else { return };
    if !setup.compile("fixed", &["-static"]) {
        return;
    }
    setup.script("again", "#!/bin/sh\n./fixed\n./fixed\n");
    setup.script("script", "#!/bin/sh\n./fixed\nsh -c HERE/again\nenv HERE/again\nexec ./fixed\n");
    setup.says_once(&["./script"], &["./fixed is statically linked", "Link it dynamically"]);
    // Another run is told again.
    setup.says_once(&["./script"], &["./fixed is statically linked"]);
    // Nobody reads it: neither a terminal nor VSHMEM_LOG.
    assert!(setup.run(&["./script"]).output().unwrap().stderr.is_empty());
    // Found in PATH, and as the interpreter of a script.
    let path = format!("PATH={}:/usr/bin:/bin", setup.directory.path().display());
    setup.says_once(&["env", &path, "fixed"], &["/fixed is statically linked"]);
    setup.script("interpreted", "#!HERE/fixed -x\n");
    setup.says_once(&["sh", "-c", "./interpreted"], &["/fixed is statically linked"]);
    if setup.compile("movable", &["-static-pie"]) {
        setup.says_once(&["sh", "-c", "./movable"], &["./movable is statically linked"]);
    }
}

#[test]
fn it_is_said_on_a_terminal() {
    let Some(setup) = Setup::new("outside-terminal") else { return };
    if !setup.compile("fixed", &["-static"]) {
        return;
    }
    let command = format!(
        "{} run --pool {} -- sh -c './fixed; ./fixed'",
        env!("CARGO_BIN_EXE_vshmem"),
        setup.pool.0
    );
    let mut script = Command::new("script");
    script.env_remove("VSHMEM_LOG").current_dir(setup.directory.path());
    let Ok(output) = script.args(["-qec", &command, "/dev/null"]).output() else {
        println!("SKIPPED: no script(1) here");
        return;
    };
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.matches("./fixed is statically linked").count(), 1, "{said}");
}

/// A process loses its locks on a file when it closes any descriptor of it.
#[test]
fn a_lock_on_a_program_stays_when_the_program_is_looked_at() {
    let Some(setup) = Setup::new("outside-lock") else { return };
    fs::write(setup.path("it.c"), LOCKS).unwrap();
    if !setup.compile("locks", &[]) {
        return;
    }
    // What the kernel does not execute: the caller goes on.
    setup.script("garbage", "neither a program nor a script");
    let output = setup.run(&["./locks", "./garbage"]).env("VSHMEM_LOG", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// Locks a file, executes it, and looks whether the lock is still there: 0.
const LOCKS: &str = "
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words)
{
	int file = open(words[count - 1], O_RDONLY), status;
	struct flock lock = { .l_type = F_RDLCK }, other = { .l_type = F_WRLCK };
	if (file < 0 || fcntl(file, F_SETLK, &lock))
		return 2;
	execv(words[count - 1], words + count - 1);
	if (!fork())
		_exit(fcntl(file, F_GETLK, &other) || other.l_type == F_UNLCK);
	wait(&status);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}
";

/// The command looks at the program as well, in the process of the program that executed it.
#[test]
fn a_lock_on_a_program_stays_when_run_executes_it() {
    let Some(setup) = Setup::new("outside-run-lock") else { return };
    fs::write(setup.path("it.c"), LOCKS_AND_RUNS).unwrap();
    if !setup.compile("locks", &[]) {
        return;
    }
    let run = setup.run(&["./locks"]);
    let mut locks = Command::new(setup.path("locks"));
    locks.arg(run.get_program()).args(run.get_args()).current_dir(setup.directory.path());
    let output = locks.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// With words: locks its own file, and executes them. Without: looks whether its process has its
/// file locked: 0.
const LOCKS_AND_RUNS: &str = "
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words)
{
	struct flock lock = { .l_type = F_RDLCK }, other = { .l_type = F_WRLCK };
	int status;
	if (count > 1) {
		if (fcntl(open(\"locks\", O_RDONLY), F_SETLK, &lock))
			return 2;
		execv(words[1], words + 1);
		return 3;
	}
	if (!fork())
		_exit(fcntl(open(\"locks\", O_RDONLY), F_GETLK, &other) || other.l_type == F_UNLCK);
	wait(&status);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}
";

#[test]
fn nothing_is_said_of_what_comes_along() {
    let Some(setup) = Setup::new("outside-not") else { return };
    if !setup.compile("dynamic", &[]) {
        return;
    }
    setup.script("script", "#!/bin/sh\n./dynamic\nenv ./dynamic\n./nothing || true\n");
    assert_eq!(setup.said(&["./script"]), [""; 0]);
    let linker = Path::new("/lib64/ld-linux-x86-64.so.2");
    if linker.exists() {
        let words = format!("{} ./dynamic", linker.display());
        assert_eq!(setup.said(&["sh", "-c", &words]), [""; 0]);
    }
    // Setuid to the user who runs it: nothing changes, and the library is loaded.
    assert!(setup.compile("own", &[]));
    fs::set_permissions(setup.path("own"), Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(setup.said(&["sh", "-c", "./own"]), [""; 0]);
}

#[test]
fn a_setuid_program_below_a_shell_is_named() {
    let Some(setup) = Setup::new("outside-setuid") else { return };
    let other = setup.path("other");
    if !setup.compile("other", &[]) || chown(&other, Some(1), None).is_err() {
        println!("SKIPPED: this user cannot make a setuid program of another user's");
        return;
    }
    fs::set_permissions(&other, Permissions::from_mode(0o4755)).unwrap();
    setup.says_once(&["sh", "-c", "./other"], &["./other runs with other privileges", "setuid"]);
}

/// As a daemon of root's does that runs as another real user and executes its workers.
#[test]
fn a_program_that_is_executed_as_two_users_is_named() {
    let Some(setup) = Setup::new("outside-two-users") else { return };
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can have two users");
        return;
    }
    assert!(setup.compile("worker", &[]));
    fs::write(setup.path("it.c"), TWO_USERS).unwrap();
    assert!(setup.compile("daemon", &[]));
    // The real user cannot look into it.
    fs::set_permissions(setup.directory.path(), Permissions::from_mode(0o700)).unwrap();
    let said = setup.said(&["./daemon", "./worker"]);
    assert_eq!(said.len(), 1, "{said:?}");
    let parts = ["./worker is executed with different real and effective users", "setpriv"];
    assert!(parts.iter().all(|part| said[0].contains(part)), "{said:?}");
    assert!(!said[0].contains("setuid"), "{said:?}");
    let left = setup.left();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["program"], "./worker");
}

const TWO_USERS: &str = "
#define _GNU_SOURCE
#include <unistd.h>
int main(int count, char **words)
{
	if (setresuid(13, 0, 0) != 0)
		return 2;
	execv(words[count - 1], words + count - 1);
	return 3;
}
";

/// Whether somebody reads what is said or not.
#[test]
fn programs_that_left_are_listed() {
    let Some(setup) = Setup::new("outside-left") else { return };
    if !setup.compile("fixed", &["-static"]) {
        return;
    }
    assert!(setup.left().is_empty());
    setup.script("script", "#!/bin/sh\n./fixed\n./fixed\nexec HERE/fixed\n");
    for _ in 0..2 {
        assert!(setup.run(&["./script"]).output().unwrap().stderr.is_empty());
        // Also by its path: a program is what was executed.
        let left = setup.left();
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(left[0]["program"], "./fixed");
        assert!(left.iter().all(|line| line["why"] == "is statically linked"), "{left:?}");
    }
    let metrics = rig::vshmem().args(["metrics", "--pool", &setup.pool.0]).output().unwrap();
    let metrics = String::from_utf8(metrics.stdout).unwrap();
    let line = format!(
        "vshmem_pool_left_programs{{pool=\"{}\",why=\"is statically linked\"}} 2\n",
        setup.pool.0
    );
    assert!(metrics.contains(&line), "{metrics}");
    let doctor = rig::vshmem().arg("doctor").output().unwrap();
    let doctor = String::from_utf8(doctor.stdout).unwrap();
    let remedy = format!("`vshmem ls --left --pool {}`", setup.pool.0);
    assert!(doctor.contains(&remedy), "{doctor}");
}

/// musl's dynamic linker would end the program. Here it is glibc's under that name.
#[test]
fn the_library_is_not_preloaded_into_a_program_for_musl() {
    let Some(setup) = Setup::new("outside-musl") else { return };
    let linker = Path::new("/lib64/ld-linux-x86-64.so.2");
    if !linker.exists() {
        println!("SKIPPED: no {} here", linker.display());
        return;
    }
    let other = setup.path("ld-musl-x86_64.so.1");
    std::os::unix::fs::symlink(linker, &other).unwrap();
    fs::write(setup.path("it.c"), PRELOADED).unwrap();
    let option = format!("-Wl,--dynamic-linker={}", other.display());
    assert!(setup.compile("foreign", &[&option]) && setup.compile("native", &[]));
    let shown = |words: &[&str]| {
        let output = setup.run(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(shown(&["sh", "-c", "./foreign; :"]), "LD_PRELOAD=\n");
    assert_eq!(shown(&["sh", "-c", "LD_PRELOAD=libm.so.6 ./foreign; :"]), "LD_PRELOAD=libm.so.6\n");
    assert_eq!(shown(&["env", "-i", "./foreign"]), "LD_PRELOAD=\n");
    assert!(shown(&["sh", "-c", "./native; :"]).contains("/libvshmem_preload"));
}

const PRELOADED: &str = "
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
	const char *value = getenv(\"LD_PRELOAD\");
	printf(\"LD_PRELOAD=%s\\n\", value ? value : \"\");
	return 0;
}
";

#[test]
fn the_agent_removes_the_marks_when_it_leaves() {
    let Some(setup) = Setup::new("outside-marks") else { return };
    if !setup.compile("fixed", &["-static"]) {
        return;
    }
    let facts = rig::json(&["pool", "show", &setup.pool.0, "--json"]);
    let uuid = facts["uuid"].as_str().unwrap().replace('-', "");
    let marks = || {
        let names = fs::read_dir("/dev/shm").unwrap().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().contains(&format!("notice.{uuid}"))).count()
    };
    setup.says_once(&["sh", "-c", "./fixed"], &["./fixed"]);
    assert_eq!(marks(), 1);
    until("the agent has left", || marks() == 0);
}

//! Files that others have made, or can change while they are looked at.

mod rig;

use std::fs::File;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use rig::{Name, complaint, expect, until, vshmem};

/// Users that nothing on this machine belongs to.
const ONE: u32 = 61_771;
const OTHER: u32 = 61_772;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A file that goes with its test.
struct Planted(PathBuf);

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A whole pool under a user's private name, with that owner and mode.
fn private_of(user: u32, owner: u32, mode: u32) -> (String, Planted) {
    let name = Name::with_pool(&format!("private{user}"));
    let private = format!("private-{user}");
    let path = PathBuf::from(format!("/dev/shm/vshmem.{private}"));
    std::fs::rename(name.path(), &path).unwrap();
    chown(&path, Some(owner), Some(owner)).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    (private, Planted(path))
}

/// A command where other users can run it.
fn public(directory: &Path) -> Command {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = directory.join("vshmem");
    rig::copy_command(&path);
    let mut command = Command::new(path);
    for variable in ["VSHMEM_POOL", "VSHMEM_LOG", "LD_PRELOAD"] {
        command.env_remove(variable);
    }
    command
}

#[test]
fn a_private_pool_that_others_made_or_may_use_is_refused_by_every_command() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (owner, mode, why) in [
        (OTHER, 0o666, "belongs to user"),
        (OTHER, 0o600, "belongs to"),
        (ONE, 0o666, "others may"),
    ] {
        let (name, planted) = private_of(ONE, owner, mode);
        let path = planted.0.to_str().unwrap();
        for words in [
            &["ls", "--pool", &name][..],
            &["ls", "--pool", path],
            &["pool", "check", &name],
            &["pool", "show", &name],
            &["run", "--pool", path, "true"],
            &["pool", "serve", &name],
        ] {
            if words[0] == "run" && !rig::library_is_beside() {
                continue;
            }
            let said = complaint(&expect(1, words));
            assert!(
                said.contains(why) && said.contains("private pool of user"),
                "{words:?}: {said}"
            );
        }
        let own = public(directory.path()).arg("ls").uid(ONE).gid(ONE).output().unwrap();
        let said = complaint(&own);
        // One that may not even be opened is refused by the kernel.
        assert!(said.contains(why) || said.contains("ermission denied"), "{said}");
        assert_eq!(own.status.code(), Some(1));
    }
    let (name, _place) = private_of(ONE, ONE, 0o600);
    expect(0, &["ls", "--pool", &name]);
}

/// The rows of `pool ls`, and how it went.
fn listed(words: &[&str]) -> (Vec<serde_json::Value>, Output) {
    let output = vshmem().args(["pool", "ls", "--json"]).args(words).output().unwrap();
    (serde_json::from_slice(&output.stdout).unwrap_or_default(), output)
}

fn row<'a>(rows: &'a [serde_json::Value], path: &Path) -> &'a serde_json::Value {
    let found = rows.iter().find(|row| row["place"] == path.to_str().unwrap());
    found.unwrap_or_else(|| panic!("{path:?} is not in {rows:?}"))
}

#[test]
fn another_users_file_is_looked_into_when_that_is_asked() {
    if !is_root() {
        return;
    }
    let name = Name::with_pool("others");
    chown(name.path(), Some(ONE), Some(ONE)).unwrap();
    let (rows, _) = listed(&[]);
    let row_of = row(&rows, &name.path());
    assert_eq!((&row_of["name"], &row_of["unread"]), (&name.0.as_str().into(), &true.into()));
    assert!(row_of["used"].is_null() && row_of["error"].is_null(), "{row_of}");
    let (rows, _) = listed(&["--all"]);
    assert!(row(&rows, &name.path())["used"].is_u64());
    let text = String::from_utf8(expect(0, &["pool", "ls"]).stdout).unwrap();
    assert!(text.contains("of other users. `vshmem pool ls --all` reads them"), "{text}");
}

#[test]
fn a_file_that_shrinks_and_grows_while_it_is_listed_harms_no_process() {
    let name = Name::with_pool("shrinking");
    let whole = std::fs::read(name.path()).unwrap();
    let file = File::options().write(true).open(name.path()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::os::unix::fs::FileExt;
            while !stop.load(Ordering::Relaxed) {
                file.set_len(0).unwrap();
                file.set_len(whole.len() as u64).unwrap();
                file.write_all_at(&whole, 0).unwrap();
            }
        });
        for _ in 0..40 {
            let (_, output) = listed(&["--all"]);
            if output.status.code() != Some(0) {
                stop.store(true, Ordering::Relaxed);
            }
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_file_with_a_lease_or_of_another_kind_is_not_waited_for() {
    let name = Name::with_pool("leased");
    let file = File::open(name.path()).unwrap();
    // F_RDLCK: opening it for writing waits until it is given up. There is none while
    // a process has it open for writing, as a listing by another test may for the moment.
    let script = "use Fcntl; open(F, '<', $ARGV[0]) or die; my $tries = 0; \
                  until (fcntl(F, 1024, F_RDLCK)) { ++$tries < 3000 or die $!; \
                  select(undef, undef, undef, 0.01) } \
                  $SIG{IO} = 'IGNORE'; $| = 1; print \"held\\n\"; <STDIN>";
    drop(file);
    let mut holder = Command::new("perl")
        .args(["-e", script])
        .arg(name.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut held = String::new();
    use std::io::BufRead;
    std::io::BufReader::new(holder.stdout.take().unwrap()).read_line(&mut held).unwrap();
    assert_eq!(held, "held\n");
    let (rows, _) = listed(&[]);
    let said = row(&rows, &name.path())["error"].as_str().unwrap().to_owned();
    assert!(said.contains("cannot open it"), "{said}");
    drop(holder.stdin.take());
    holder.wait().unwrap();
    until("it can be listed again", || row(&listed(&[]).0, &name.path())["used"].is_u64());
}

#[test]
fn a_limit_on_the_size_of_files_is_a_sentence_and_leaves_nothing_behind() {
    let before = drafts();
    let name = Name::new("limited");
    let words = format!(
        "ulimit -f 1000; exec {} pool create {} --size 8M",
        env!("CARGO_BIN_EXE_vshmem"),
        name.0
    );
    let made = Command::new("sh").args(["-c", &words]).output().unwrap();
    let said = complaint(&made);
    assert_eq!(made.status.code(), Some(1), "{made:?}");
    assert!(said.contains("limit on the size of files"), "{said}");
    assert!(said.contains("`ulimit -f unlimited`"), "{said}");
    assert!(!name.path().exists());
    assert_eq!(drafts(), before);
}

/// Files under a temporary name.
fn drafts() -> usize {
    let names = std::fs::read_dir("/dev/shm").unwrap().flatten();
    names
        .filter(|entry| entry.file_name().to_string_lossy().contains("clitest"))
        .filter(|entry| entry.file_name().as_encoded_bytes()[0] == b'.')
        .count()
}

/// In a /dev/shm of its own: a pool with large tables, one that is much shorter than its file, and
/// a file without anything, all of another user. What each command has read, and how often it
/// touched a page for the first time, is added up by the shell that waits for it.
const SPARSE: &str = r#"
mount -t tmpfs -o size=1G tmpfs /dev/shm || exit 1
[ ! -d /dev/hugepages ] || mount -t tmpfs tmpfs /dev/hugepages || exit 1
"$1" pool create big --size 24G --sparse >/dev/null && "$1" pool create grown --size 8M >/dev/null || exit 1
truncate -s 1T /dev/shm/vshmem.grown /dev/shm/vshmem.void
chown "$2" /dev/shm/vshmem.*
counts() {
    sed -n 's/^rchar: //p' /proc/$$/io
    sed 's/.*) //' /proc/$$/stat | cut -d ' ' -f 9
}
for words in "pool ls" "pool ls --all" doctor; do
    before=$(counts)
    "$1" $words >/dev/null 2>&1
    status=$?
    echo $status $before $(counts) $words
done
"#;

#[test]
fn a_sparse_file_of_another_user_is_read_for_some_mebibytes_at_most() {
    const MOST_READ: u64 = 16 << 20;
    const MOST_TOUCHED: u64 = 1 << 15;
    if !is_root() {
        return;
    }
    let words = ["--mount", "--propagation", "private", "sh", "-c", SPARSE, "sh"];
    let mut command = Command::new("unshare");
    command.args(words).args([env!("CARGO_BIN_EXE_vshmem"), &ONE.to_string()]);
    let output = command.env_remove("VSHMEM_POOL").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().count(), 3, "{text}");
    for line in text.lines() {
        let numbers: Vec<u64> = line.split(' ').map_while(|word| word.parse().ok()).collect();
        let &[status, read_before, touched_before, read, touched] = &numbers[..] else {
            panic!("{line:?}");
        };
        // Not by a signal, which a shell counts from 128.
        assert!(status < 128, "{line}");
        assert!(read - read_before <= MOST_READ, "{line}: {} bytes", read - read_before);
        let touched = touched - touched_before;
        assert!(touched <= MOST_TOUCHED, "{line}: {touched} pages");
    }
}

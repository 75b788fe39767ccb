//! What the tests of the command share: a pool of their own, and the command itself.
#![allow(dead_code, missing_docs)] // each test file uses a part

pub mod client;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A pool name that no other test and no other program has; the pool, and what lies beside it, is
/// removed at the end.
pub struct Name(pub String);

impl Name {
    pub fn new(test: &str) -> Self {
        Self(format!("clitest-{}-{test}", std::process::id()))
    }

    /// A name with a small pool behind it.
    pub fn with_pool(test: &str) -> Self {
        let name = Self::new(test);
        expect(0, &["pool", "create", &name.0, "--size", "8M"]);
        name
    }

    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/shm/vshmem.{}", self.0))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if self.path().exists() {
            let _ = vshmem().args(["pool", "rm", &self.0, "--force"]).output();
        }
        // One that was damaged.
        let _ = fs::remove_file(self.path());
    }
}

/// Who runs the tests, and passes every check: objects are made for that user, who may be no
/// superuser, and the command finds them to be its own.
#[derive(Debug)]
pub struct Me;

impl Me {
    /// The name that listings have for it.
    pub fn name() -> String {
        let user = uzers::get_user_by_uid(vshmem_ipc::Caller::uid(&Self)).expect("a name");
        user.name().to_string_lossy().into_owned()
    }
}

impl vshmem_ipc::Caller for Me {
    fn uid(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn gid(&self) -> u32 {
        rustix::process::getegid().as_raw()
    }

    fn in_group(&self, _: u32) -> bool {
        true
    }

    fn owns_all(&self) -> bool {
        true
    }
}

/// The command, with nothing of the caller's settings.
pub fn vshmem() -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_vshmem")))
}

fn clean(mut command: Command) -> Command {
    for variable in ["VSHMEM_POOL", "VSHMEM_LOG", "LD_PRELOAD"] {
        command.env_remove(variable);
    }
    command
}

fn is_beside(name: &str) -> bool {
    Path::new(env!("CARGO_BIN_EXE_vshmem")).with_file_name(name).is_file()
}

/// Whether the preload library was built beside the command; `run` looks for it before anything
/// else. `tests/run` builds it.
pub fn library_is_beside() -> bool {
    is_beside(vshmem_session::PRELOAD_LIBRARY)
}

/// Whether the smaller one was.
pub fn sysv_library_is_beside() -> bool {
    is_beside(vshmem_session::SYSV_PRELOAD_LIBRARY)
}

/// What a command wrote on standard error.
pub fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the command and checks its exit code.
pub fn expect(code: i32, words: &[&str]) -> Output {
    let output = vshmem().args(words).output().unwrap();
    let said = complaint(&output);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    output
}

/// Runs the command, which must fail with one sentence that holds all of `parts`.
pub fn refusal(words: &[&str], parts: &[&str]) -> String {
    let said = complaint(&expect(1, words));
    assert!(said.starts_with("vshmem: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in parts {
        assert!(said.contains(part), "no {part:?} in {said:?}");
    }
    said
}

/// Runs the command and reads the JSON that it writes.
pub fn json(words: &[&str]) -> serde_json::Value {
    serde_json::from_slice(&expect(0, words).stdout).unwrap()
}

/// Makes a pool that says of itself what another one does, as a member can write it.
pub fn forge(pool: &Name, forged: &Name) {
    use std::os::unix::fs::FileExt;
    fs::copy(pool.path(), forged.path()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(forged.path()).unwrap();
    // Else it would be known for a copy.
    let nothing = [0; size_of::<vshmem_wire::HostRecord>()];
    file.write_all_at(&nothing, vshmem_wire::HOST_RECORD_OFFSET).unwrap();
}

/// Writes a program that others may run. A process of its own writes it: a file that this process
/// had open for writing could still be open in a child that another test's thread has just forked,
/// and `execve` would fail with ETXTBSY.
pub fn write_program(path: &Path, bytes: &[u8]) {
    let mut install = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    install.stdin.take().unwrap().write_all(bytes).unwrap();
    assert!(install.wait().unwrap().success(), "{path:?} was not written");
}

/// Writes a copy of the command that others may run, as [`write_program`] does.
pub fn copy_command(path: &Path) {
    copy(Path::new(env!("CARGO_BIN_EXE_vshmem")), path);
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("install").args(["-m", "755"]).args([from, to]).status();
    assert!(copied.unwrap().success(), "{to:?} was not written");
}

/// The programs of `vshmem lab` and `vshmem bench`, which a build leaves beside the command.
const TOOLS: [&str; 2] = ["vshmem-lab", "vshmem-bench"];

/// Waits for a state; the bound only ends a test that has failed.
pub fn until(what: &str, mut state: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !state() {
        assert!(Instant::now() < end, "still not: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The command in a directory of its own, beside a library that does nothing.
pub struct Installed {
    directory: tempfile::TempDir,
}

impl Installed {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let binary = directory.path().join("vshmem");
        copy_command(&binary);
        let beside = Path::new(env!("CARGO_BIN_EXE_vshmem"));
        for tool in TOOLS.map(|name| beside.with_file_name(name)).iter().filter(|one| one.exists())
        {
            copy(tool, &binary.with_file_name(tool.file_name().unwrap()));
        }
        let source = directory.path().join("nothing.c");
        fs::write(&source, "int vshmem_nothing;\n").unwrap();
        let library = directory.path().join("libvshmem_preload.so");
        let built = Command::new("cc").args(["-shared", "-o"]).arg(&library).arg(&source).status();
        assert!(built.is_ok_and(|status| status.success()), "the tests of `run` need cc");
        Self { directory }
    }

    pub fn command(&self) -> Command {
        clean(Command::new(self.directory.path().join("vshmem")))
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes an executable file.
    pub fn program(&self, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
        let path = self.directory.path().join(name);
        write_program(&path, bytes);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

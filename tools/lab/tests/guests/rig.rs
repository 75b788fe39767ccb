//! One lab for all tests that do not break it, and labs of their own for those that do.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use vshmem_lab::{ExecRequest, Lab, Streams, UpOptions};

pub const UP: &str = "only-up";
pub const EXEC: &str = "only-exec";

/// A name that no other run uses.
pub fn name(suffix: &str) -> String {
    format!("test{}-{suffix}", std::process::id())
}

pub fn options(suffix: &str) -> UpOptions {
    UpOptions {
        name: name(suffix),
        guest: crate::GUEST,
        memory_mib: crate::MEMORY_MIB,
        ..Default::default()
    }
}

/// The pool of the shared lab.
pub fn pool() -> PathBuf {
    PathBuf::from(format!("/dev/shm/{}", name("pool")))
}

/// The lab that the gentle tests share.
pub fn shared() -> &'static Lab {
    static LAB: OnceLock<Lab> = OnceLock::new();
    LAB.get_or_init(|| {
        if !crate::POOL_ON_HOST {
            let options = UpOptions { pool_name: Some("tank".into()), ..options("shared") };
            return Lab::up(&options).unwrap();
        }
        let pool = pool();
        std::fs::File::create(&pool).unwrap().set_len(1 << 20).unwrap();
        std::os::unix::fs::chown(&pool, Some(0), Some(0)).unwrap();
        std::process::Command::new("chmod").arg("0640").arg(&pool).status().unwrap();
        let options =
            UpOptions { pool: Some(pool), pool_name: Some("tank".into()), ..options("shared") };
        Lab::up(&options).unwrap()
    })
}

pub fn close() {
    Lab::down_named(&name("shared")).unwrap();
    let _ = std::fs::remove_file(pool());
}

/// What a command wrote and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    pub code: i32,
    pub out: Vec<u8>,
    pub err: Vec<u8>,
}

impl Ran {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap().trim_end()
    }
}

#[derive(Clone, Default)]
pub struct Sink(pub Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub fn run(lab: &Lab, guest: u32, request: &ExecRequest) -> Ran {
    feed(lab, guest, request, None)
}

pub fn feed(lab: &Lab, guest: u32, request: &ExecRequest, stdin: Option<std::fs::File>) -> Ran {
    let (out, err) = (Sink::default(), Sink::default());
    let streams = Streams {
        stdin: stdin.map(Into::into),
        stdout: Box::new(out.clone()),
        stderr: Box::new(err.clone()),
    };
    let code = lab.exec_with(guest, request, streams).unwrap();
    let take = |sink: Sink| std::mem::take(&mut *sink.0.lock().unwrap());
    Ran { code, out: take(out), err: take(err) }
}

pub fn shell(lab: &Lab, guest: u32, line: &str) -> Ran {
    run(lab, guest, &ExecRequest::shell(line))
}

/// What runs a command in another guest from inside one, with this binary.
#[allow(dead_code)]
pub fn exec_words(guest: u32, words: &[&str]) -> Vec<OsString> {
    let program = std::env::current_exe().unwrap();
    let program = program.file_name().unwrap().to_owned();
    let guest = guest.to_string();
    let rest = [EXEC, "this", &guest].into_iter().chain(words.iter().copied());
    std::iter::once(program).chain(rest.map(OsString::from)).collect()
}

/// Waits for a state.
pub fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(180);
    while !reached() {
        assert!(Instant::now() < end, "in 180 s it was not true that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Host processes, zombies not, whose command line contains that.
pub fn processes(pattern: &str) -> Vec<i32> {
    let own = std::process::id() as i32;
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|&pid| pid != own)
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ").contains(pattern)
        })
        .collect()
}

/// Nothing of the lab is left on the host.
pub fn assert_nothing_left(suffix: &str) {
    let name = name(suffix);
    let left = processes(&format!("vshmem-lab/{name}/"));
    assert!(left.is_empty(), "{left:?}");
    assert!(!PathBuf::from("/run/vshmem-lab").join(&name).exists());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&name), "{mounts}");
}

/// The verb of a process that is killed while it brings a lab up.
pub fn up_only(words: &[OsString]) -> Result<(), String> {
    let options = UpOptions {
        name: words[0].to_string_lossy().into_owned(),
        guest: crate::GUEST,
        memory_mib: crate::MEMORY_MIB,
        ..Default::default()
    };
    Lab::up(&options).map(drop).map_err(|error| error.to_string())
}

/// The verb of a process that is killed while a command runs: LAB GUEST WORDS...
pub fn exec_only(words: &[OsString]) -> Result<(), String> {
    let run = || {
        let request = ExecRequest { forward_signals: true, ..ExecRequest::new(&words[2..]) };
        if vshmem_lab::in_guest() {
            let guest = words[1].to_string_lossy().trim_start_matches("guest").parse().unwrap();
            return vshmem_lab::exec_in_peer(guest, &request, Streams::inherit()?);
        }
        let lab = Lab::open(&words[0].to_string_lossy())?;
        lab.exec(lab.guest_named(&words[1].to_string_lossy())?, &request)
    };
    match run() {
        Ok(code) => std::process::exit(code),
        Err(error) => Err(error.to_string()),
    }
}

//! Xen with dom0 and two guests, and a pool that dom0 makes.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use vshmem_acceptance::guests::Sink;
use vshmem_acceptance::{Ran, build};
use vshmem_lab::{ExecRequest, GuestKind, GuestState, Lab, Streams, UpOptions};

/// Who runs something.
pub const DOM0: u32 = 0;
/// The pool of most tests.
pub const POOL: &str = "grid";
/// A guest that is there only while a test has created it: all others have booted when the first
/// test begins.
pub const LATE: u32 = 3;
const MEMORY_MIB: u32 = 256;

/// A program over libxenvchan, where Xen's libraries are unpacked (scripts/guest-xen).
pub static RIVAL: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let headers = std::path::Path::new("/var/lib/vshmem/xen/dev/usr/include/libxenvchan.h");
    headers.exists().then(|| build::programs("bench/vchan").join("pingpong_vchan"))
});

/// Emulated processors of Xen's machine, which all domains share: VSHMEM_TEST_CPUS, or 1.
fn cpus() -> u32 {
    std::env::var("VSHMEM_TEST_CPUS").map_or(1, |cpus| cpus.parse().expect("a number"))
}

/// The lab. It goes when this is dropped.
#[derive(Debug)]
pub struct Xen {
    name: String,
}

/// A command that runs beside the test.
pub struct Beside(thread::JoinHandle<Ran>);

impl Beside {
    /// Waits for its end.
    pub fn end(self) -> Ran {
        self.0.join().expect("a command")
    }
}

/// How long anything may take before it counts as hanging: three kernels on one emulated CPU.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Waits for a state.
#[track_caller]
pub fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !reached() {
        assert!(Instant::now() < end, "it did not come true that {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Why Xen cannot be booted here.
pub fn missing() -> Option<String> {
    let missing: Vec<String> = Lab::check(GuestKind::Xen).iter().map(ToString::to_string).collect();
    (!missing.is_empty()).then(|| missing.join("; "))
}

/// What is tried in the guests.
fn programs() -> Vec<PathBuf> {
    let examples = build::programs("examples");
    let own = build::programs("tests/acceptance/programs");
    let mut stage = vec![build::actor(), own.join("turns")];
    stage.extend(["producer", "consumer"].map(|name| examples.join(name)));
    stage.push(build::programs("tests/conformance/probe").join("probe"));
    let bench = build::programs("bench");
    stage.extend(["pingpong_net", "pingpong_sysv"].map(|name| bench.join(name)));
    stage.extend(RIVAL.clone());
    stage
}

impl Xen {
    /// Boots it.
    pub fn boot(suffix: &str) -> Self {
        let name = format!("acceptance{}-{suffix}", std::process::id());
        let lab = Lab::up(&UpOptions {
            name: name.clone(),
            guest: GuestKind::Xen,
            count: LATE,
            cpus: cpus(),
            memory_mib: MEMORY_MIB,
            binary_dir: build::binaries().to_owned(),
            stage: programs(),
            binary: Some(build::lab()),
            ..UpOptions::default()
        });
        let lab = lab.unwrap_or_else(|error| panic!("lab {name}: {error}"));
        let xen = Self { name };
        lab.kill(LATE).expect("the third guest goes");
        xen
    }

    /// The lab.
    pub fn lab(&self) -> Lab {
        Lab::open(&self.name).unwrap_or_else(|error| panic!("lab {}: {error}", self.name))
    }

    /// Creates a guest that is not there.
    pub fn create(&self, guest: u32) {
        let lab = self.lab();
        let listed = lab.list().expect("a list of guests").guests;
        let dead =
            |one: &&vshmem_lab::GuestListing| one.guest == guest && one.state == GuestState::Dead;
        assert!(listed.iter().find(dead).is_some(), "guest {guest} is there already");
        lab.restart(guest).unwrap_or_else(|error| panic!("guest {guest}: {error}"));
    }

    /// A guest's row in what dom0 reads out of the grant table: its slot, the pages that it is
    /// granted, and those of them that are mapped. `None`: it has no row.
    pub fn row_of(&self, guest: &str) -> Option<[u32; 3]> {
        self.rows().into_iter().find_map(|(name, row)| (name == guest).then_some(row))
    }

    /// All rows, with the names of those whose they are; those that are free have none.
    pub fn rows(&self) -> Vec<(String, [u32; 3])> {
        let shown = self.shell(DOM0, &format!("vshmem pool show {POOL} --json")).ok();
        let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        let rows = shown["grants"].as_array().expect("rows of the grant table");
        let number = |row: &serde_json::Value, what: &str| {
            row[what].as_u64().and_then(|n| u32::try_from(n).ok()).expect("a number")
        };
        rows.iter()
            .map(|row| {
                let name = row["guest"].as_str().unwrap_or_default().to_owned();
                (name, ["slot", "granted", "mapped"].map(|what| number(row, what)))
            })
            .collect()
    }

    /// Starts a shell's command line in a domain.
    pub fn start(&self, domain: u32, line: &str) -> Beside {
        let (out, err) = (Sink::default(), Sink::default());
        let streams =
            Streams { stdin: None, stdout: Box::new(out.clone()), stderr: Box::new(err.clone()) };
        let lab = self.lab();
        let request = ExecRequest::new(["/bin/sh", "-c", line]);
        let thread = thread::spawn(move || {
            let code = lab.exec_with(domain, &request, streams);
            Ran {
                code: *code.as_ref().unwrap_or(&255),
                out: out.text(),
                err: err.text() + &code.err().map(|error| error.to_string()).unwrap_or_default(),
            }
        });
        Beside(thread)
    }

    /// Runs a shell's command line in a domain to its end.
    pub fn shell(&self, domain: u32, line: &str) -> Ran {
        self.start(domain, line).end()
    }

    /// Makes the pool, with a server that writes to /tmp/serve.log in dom0.
    pub fn make_pool(&self) {
        self.shell(DOM0, &format!("vshmem pool create {POOL} --xen --size 32M")).ok();
        self.shell(DOM0, &format!("(vshmem pool serve {POOL} >/tmp/serve.log 2>&1 &)")).ok();
        until("the server is there", || self.server_has_said("granted it as they come"));
    }

    /// Whether the server has written that.
    pub fn server_has_said(&self, words: &str) -> bool {
        self.shell(DOM0, "cat /tmp/serve.log").out.contains(words)
    }

    /// Removes the pool, also while it is used.
    pub fn remove_pool(&self) {
        self.shell(DOM0, &format!("vshmem pool rm --force {POOL}")).ok();
    }

    /// One System V call by a process of its own; its answer.
    pub fn call(&self, domain: u32, order: &str) -> String {
        let line = format!("echo '{order}' | vshmem run --pool {POOL} actor");
        self.shell(domain, &line).ok().trim().to_owned()
    }
}

impl Drop for Xen {
    fn drop(&mut self) {
        if let Err(error) = Lab::down_named(&self.name) {
            vshmem_acceptance::suite::say(&format!("lab {}: not down: {error}", self.name));
        }
    }
}

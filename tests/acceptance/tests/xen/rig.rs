//! Xen with dom0 and two guests, and a pool that dom0 makes.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use vshmem_acceptance::guests::Sink;
use vshmem_acceptance::{Ran, build};
use vshmem_lab::{ExecRequest, GuestKind, Lab, Streams, UpOptions};

/// Who runs something.
pub const DOM0: u32 = 0;
/// The pool of most tests.
pub const POOL: &str = "grid";
const MEMORY_MIB: u32 = 256;

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
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits for a state.
#[track_caller]
pub fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
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
    stage
}

impl Xen {
    /// Boots it.
    pub fn boot(suffix: &str) -> Self {
        let name = format!("acceptance{}-{suffix}", std::process::id());
        let lab = Lab::up(&UpOptions {
            name: name.clone(),
            guest: GuestKind::Xen,
            count: 2,
            memory_mib: MEMORY_MIB,
            binary_dir: build::binaries().to_owned(),
            stage: programs(),
            binary: Some(build::vshmem()),
            ..UpOptions::default()
        });
        lab.unwrap_or_else(|error| panic!("lab {name}: {error}"));
        Self { name }
    }

    /// The lab.
    pub fn lab(&self) -> Lab {
        Lab::open(&self.name).unwrap_or_else(|error| panic!("lab {}: {error}", self.name))
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

    /// Removes the pool, whoever uses it.
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

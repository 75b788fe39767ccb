//! A lab with a pool.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use vshmem_lab::{Device, ExecRequest, GuestKind, Lab, Server, Streams, UpOptions};

use crate::{Pool, Ran, build};

/// The actor, in a guest.
pub const ACTOR: &str = "/run/vshmem/bin/actor";
/// Where the crashing binaries are put in a guest.
pub const CRASHING: &str = "/tmp/crashing";

/// Guests that share one pool. They go when this is dropped.
#[derive(Debug)]
pub struct Guests {
    name: String,
    pool: Pool,
    machine: Machine,
}

/// Keeps what a command writes.
#[derive(Debug, Clone, Default)]
pub struct Sink(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink {
    /// What was written so far.
    #[must_use]
    pub fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// What guests are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// User Mode Linux.
    Uml,
    /// QEMU, with the pool as that device; with our driver, or as the kernel shows it by itself.
    Qemu {
        /// The device.
        device: Device,
        /// Whether the driver is loaded.
        driver: bool,
    },
}

impl Machine {
    fn kind(self) -> GuestKind {
        match self {
            Machine::Uml => GuestKind::Uml,
            Machine::Qemu { .. } => GuestKind::Qemu,
        }
    }
}

impl Machine {
    /// A pool that these guests can be given.
    #[must_use]
    pub fn pool(self, size: &str) -> Pool {
        let dax = matches!(self, Machine::Qemu { device: Device::Dax, .. });
        Pool::new(size, if dax { &["--dax"] } else { &[] })
    }

    /// Whether guests can be notified.
    #[must_use]
    pub fn has_interrupts(self) -> bool {
        matches!(self, Machine::Qemu { device: Device::Doorbell, driver: true })
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Machine::Uml => f.write_str("uml"),
            Machine::Qemu { device: Device::Dax, .. } => f.write_str("dax"),
            Machine::Qemu { device, driver: true } => write!(f, "{device} with the driver"),
            Machine::Qemu { device, driver: false } => write!(f, "{device} without a driver"),
        }
    }
}

/// Why no guest of that kind can be booted here.
pub fn missing(machine: Machine) -> Option<String> {
    let missing = Lab::check(machine.kind());
    let reasons: Vec<String> = missing.iter().map(ToString::to_string).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

impl Guests {
    /// Boots that many. `stage`: more programs for /run/vshmem/bin.
    ///
    /// # Panics
    /// When they do not come up.
    pub fn boot(machine: Machine, suffix: &str, count: u32, pool: Pool, stage: &[PathBuf]) -> Self {
        Self::boot_with(machine, suffix, count, pool, stage, false)
    }

    /// Boots that many, whose agents notify each other by datagrams.
    ///
    /// # Panics
    /// When they do not come up.
    pub fn boot_notifying(
        machine: Machine,
        suffix: &str,
        count: u32,
        pool: Pool,
        stage: &[PathBuf],
    ) -> Self {
        Self::boot_with(machine, suffix, count, pool, stage, true)
    }

    fn boot_with(
        machine: Machine,
        suffix: &str,
        count: u32,
        pool: Pool,
        stage: &[PathBuf],
        notify: bool,
    ) -> Self {
        let name = format!("acceptance{}-{suffix}", std::process::id());
        let vshmem = build::vshmem();
        let notice = ["pool", "evict", "--dead", "--if-there", pool.name(), "{guest}"];
        let words = std::iter::once(vshmem.display().to_string()).chain(notice.map(str::to_owned));
        let (device, driver) = match machine {
            Machine::Qemu { device, driver: true } => (device, build::driver()),
            Machine::Qemu { device, driver: false } => (device, None),
            Machine::Uml => (Device::default(), None),
        };
        let serve = [&vshmem.display().to_string(), "pool", "serve", pool.name()];
        let lab = Lab::up(&UpOptions {
            name: name.clone(),
            guest: machine.kind(),
            device,
            driver,
            server: Some(Server {
                socket: format!("/run/vshmem/serve/{}.sock", pool.name()).into(),
                command: serve.map(str::to_owned).to_vec(),
            }),
            count,
            memory_mib: if machine == Machine::Uml { 256 } else { 384 },
            pool: Some(pool.path()),
            pool_name: Some(pool.name().to_owned()),
            binary_dir: build::binaries().to_owned(),
            stage: std::iter::once(build::actor()).chain(stage.iter().cloned()).collect(),
            binary: Some(build::lab()),
            on_death: Some(words.collect()),
            notify,
            ..UpOptions::default()
        });
        lab.unwrap_or_else(|error| panic!("lab {name}: {error}"));
        Self { name, pool, machine }
    }

    /// The name of their lab.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What they are.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// The lab.
    ///
    /// # Panics
    /// When it is gone.
    pub fn open(&self) -> Lab {
        Lab::open(&self.name).unwrap_or_else(|error| panic!("lab {}: {error}", self.name))
    }

    /// The pool of all guests.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Runs a command in a guest to its end.
    pub fn run(&self, guest: u32, words: &[&str]) -> Ran {
        self.run_on(guest, words, None)
    }

    fn run_on(&self, guest: u32, words: &[&str], stdin: Option<OwnedFd>) -> Ran {
        let (out, err) = (Sink::default(), Sink::default());
        let streams =
            Streams { stdin, stdout: Box::new(out.clone()), stderr: Box::new(err.clone()) };
        let code = self.open().exec_with(guest, &ExecRequest::new(words), streams);
        Ran {
            code: *code.as_ref().unwrap_or(&255),
            out: out.text(),
            err: err.text() + &code.err().map(|error| error.to_string()).unwrap_or_default(),
        }
    }

    /// Runs a shell's command line in a guest to its end.
    pub fn shell(&self, guest: u32, line: &str) -> Ran {
        self.run(guest, &["/bin/sh", "-c", line])
    }

    /// Puts the crashing binaries into a guest's own memory: staged files cannot share a name with
    /// the sound ones, and only the tests that kill at a step have them built.
    ///
    /// # Panics
    /// When that fails.
    pub fn put_crashing(&self, guest: u32) {
        let library = build::crashing_binaries().join("libvshmem_preload.so");
        let library = std::fs::File::open(library).expect("the crashing library");
        let line = format!(
            "mkdir -p {CRASHING} && cp /run/vshmem/bin/vshmem {CRASHING}/ && \
             cat >{CRASHING}/libvshmem_preload.so"
        );
        self.run_on(guest, &["/bin/sh", "-c", &line], Some(library.into())).ok();
    }
}

/// What the tests of two guests run there.
pub fn programs() -> Vec<PathBuf> {
    let mut stage = Vec::new();
    let bench = build::programs("bench");
    stage.extend(["handover", "flood"].map(|name| bench.join(name)));
    let examples = build::programs("examples");
    stage.extend(["matrix_fill", "matrix_check"].map(|name| examples.join(name)));
    stage.push(build::programs("tests/conformance/probe").join("probe"));
    let own = build::programs("tests/acceptance/programs");
    stage.extend(["churn", "paced", "strings", "turns"].map(|name| own.join(name)));
    stage
}

impl Drop for Guests {
    fn drop(&mut self) {
        if let Err(error) = Lab::down_named(&self.name) {
            crate::suite::say(&format!("lab {}: it did not go down: {error}", self.name));
        }
    }
}

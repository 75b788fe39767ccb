//! Two guests of a lab.

use std::fs::{self, File};
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use vshmem_lab::{ExecRequest, GuestKind, Lab, Streams, UpOptions};

use super::place::{Job, Materials, Side, Site};
use super::spawn;
use crate::error::{Error, Result};
use crate::machine::emulation;
use crate::pool::OwnPool;

/// Guests 1 and 2 of a lab: one that was up, or an own one that goes with this.
pub struct Guests {
    lab: Option<Lab>,
    name: String,
    // After the lab, so that the guests end first.
    pool: Option<OwnPool>,
    /// Where the programs are in the guests.
    directory: PathBuf,
    address: Ipv4Addr,
    cpus: [usize; 2],
}

impl Guests {
    /// Uses the lab that is named, or boots one with a new pool.
    ///
    /// # Errors
    /// [`Error::NoSite`] when this machine cannot boot guests, or the lab has no pool or only one
    /// guest.
    pub fn open(materials: &Materials<'_>) -> Result<Self> {
        let mut guests = match materials.lab {
            Some(name) => {
                // Its directory is root's alone.
                if !rustix::process::geteuid().is_root() {
                    let why = format!("the lab {name} is root's; run it with sudo");
                    return Err(Error::NoSite { place: "guests", why });
                }
                Self::of(Lab::open(name)?, None)
            }
            None => Self::boot(materials)?,
        };
        guests.look(materials.guests.clamp(1, 2))?;
        for program in materials.programs {
            for side in [Side::First, Side::Second] {
                guests.deliver(side as u32 + 1, program)?;
            }
        }
        Ok(guests)
    }

    fn of(lab: Lab, pool: Option<OwnPool>) -> Self {
        Self {
            name: lab.name().to_owned(),
            lab: Some(lab),
            pool,
            directory: format!("/tmp/vshmem-bench-{}", std::process::id()).into(),
            address: Ipv4Addr::UNSPECIFIED,
            cpus: [0, 0],
        }
    }

    fn boot(materials: &Materials<'_>) -> Result<Self> {
        let missing = Lab::check(GuestKind::Uml);
        if !missing.is_empty() {
            let why: Vec<String> = missing.iter().map(ToString::to_string).collect();
            return Err(Error::NoSite { place: "guests", why: why.join("; ") });
        }
        let pool = OwnPool::make(materials.pool_bytes, &[])?;
        let lab = Lab::up(&UpOptions {
            name: pool.name().to_owned(),
            memory_mib: materials.memory.mebibytes,
            swap_mib: materials.memory.swap_mebibytes,
            pool: Some(pool.path().to_owned()),
            pool_name: Some(pool.name().to_owned()),
            binary_dir: materials.command.parent().unwrap_or(Path::new(".")).to_owned(),
            count: materials.guests,
            stage: materials.stage.to_vec(),
            peer_exec: materials.peers,
            ..UpOptions::default()
        })
        .map_err(|error| Error::NoSite { place: "guests", why: error.to_string() })?;
        Ok(Self::of(lab, Some(pool)))
    }

    /// Finds out address and CPUs of the second guest, or of the only one.
    fn look(&mut self, sides: u32) -> Result<()> {
        let listing = self.lab()?.list()?;
        let refused = |what: &str| {
            let name = &self.name;
            let again = format!(
                "`vshmem lab --name {name} down`, and `vshmem lab --name {name} up --guest uml -n {sides} --pool POOL`"
            );
            Error::NoSite { place: "guests", why: format!("the lab {name} has {what}: {again}") }
        };
        if listing.pool_name.is_none() {
            return Err(refused("no pool"));
        }
        let (Some(one), Some(other)) =
            (listing.guests.first(), listing.guests.get(sides as usize - 1))
        else {
            return Err(refused("too few guests"));
        };
        self.address = other.address;
        // Guests that share CPUs say nothing of where processes of the host should be.
        self.cpus = match (cpu_of(one.uid), cpu_of(other.uid)) {
            (Some(one), Some(other)) if one != other => [one, other],
            _ => spawn::two_cpus(),
        };
        Ok(())
    }

    fn lab(&self) -> Result<&Lab> {
        self.lab.as_ref().ok_or(Error::Stopped)
    }

    /// Copies a program into a guest, whose user may not be able to read it where it is.
    pub(crate) fn deliver(&self, guest: u32, program: &Path) -> Result<()> {
        let place = self.place_of(program);
        let line = r#"mkdir -p "${0%/*}" && cat >"$0" && chmod 755 "$0""#;
        let request =
            ExecRequest::new(["/bin/sh".as_ref(), "-c".as_ref(), line.as_ref(), place.as_os_str()]);
        let file = File::open(program).map_err(Error::io(format!("open {}", program.display())))?;
        let command = format!("copying {}", program.display());
        self.execute(guest, &request, Some(file), &command).map(drop)
    }

    /// Runs a job in any guest of the lab, from 1.
    pub(crate) fn run_in(&self, guest: u32, job: &Job) -> Result<String> {
        let there = Job { program: self.place_of(&job.program), ..job.clone() };
        // Lab and guest know the pool.
        let request = ExecRequest::new(spawn::words(&there, "vshmem".as_ref(), None));
        self.execute(guest, &request, None, &spawn::line(job))
    }

    /// Runs a line of shell in a guest.
    pub(crate) fn shell(&self, guest: u32, line: &str) -> Result<String> {
        self.execute(guest, &ExecRequest::shell(line), None, line)
    }

    /// How many CPUs a guest has.
    pub(crate) fn cpus_of(&self, guest: u32) -> Result<u32> {
        let said = self.shell(guest, "nproc")?;
        Ok(said.trim().parse().unwrap_or(1))
    }

    /// The user of each guest, who owns its processes.
    pub(crate) fn users(&self) -> Result<Vec<u32>> {
        Ok(self.lab()?.list()?.guests.iter().map(|guest| guest.uid).collect())
    }

    /// The pool's name on the host.
    pub(crate) fn pool_name(&self) -> Result<String> {
        let listing = self.lab()?.list()?;
        listing
            .pool_name
            .ok_or_else(|| Error::NoSite { place: "guests", why: "the lab has no pool".to_owned() })
    }

    /// A guest's address, as the others reach it.
    pub(crate) fn address_of(&self, guest: u32) -> Result<Ipv4Addr> {
        let listing = self.lab()?.list()?;
        let found = listing.guests.get(guest.saturating_sub(1) as usize).map(|one| one.address);
        found.ok_or_else(|| Error::NoSite {
            place: "guests",
            why: format!("the lab has no guest {guest}"),
        })
    }

    pub(crate) fn place_of(&self, program: &Path) -> PathBuf {
        self.directory.join(program.file_name().unwrap_or_default())
    }

    fn execute(
        &self,
        guest: u32,
        request: &ExecRequest,
        stdin: Option<File>,
        command: &str,
    ) -> Result<String> {
        let (output, errors) = (Sink::default(), Sink::default());
        let streams = Streams {
            stdin: stdin.map(Into::into),
            stdout: Box::new(output.clone()),
            stderr: Box::new(errors.clone()),
        };
        let code = self.lab()?.exec_with(guest, request, streams)?;
        if code == 0 {
            return Ok(output.text());
        }
        Err(Error::Program {
            command: command.to_owned(),
            place: format!("in guest{guest} of lab {}", self.name),
            status: format!("exit code {code}"),
            output: errors.text().trim().to_owned(),
        })
    }
}

impl Site for Guests {
    fn noun(&self) -> &'static str {
        "guests"
    }

    fn describe(&self) -> String {
        let [one, other] = self.cpus;
        let made_of = self.lab.as_ref().map(Lab::made_of).unwrap_or_default();
        format!("two guests of lab {} ({made_of}), on CPUs {one} and {other}", self.name)
    }

    fn cpus(&self) -> [usize; 2] {
        self.cpus
    }

    fn pin(&self, _side: Side) -> Option<usize> {
        // A guest has one CPU.
        None
    }

    fn address(&self) -> Ipv4Addr {
        self.address
    }

    fn emulated(&self) -> Option<String> {
        let cpuinfo = self.shell(1, "cat /proc/cpuinfo").unwrap_or_default();
        // User Mode Linux runs programs on the CPU itself; only its system calls are dear.
        emulation(&cpuinfo, "").filter(|_| !cpuinfo.contains("User Mode Linux"))
    }

    fn run(&self, side: Side, job: &Job) -> Result<String> {
        self.run_in(side as u32 + 1, job)
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        if self.pool.is_some() {
            if let Some(lab) = self.lab.take()
                && let Err(error) = lab.down()
            {
                eprintln!("vshmem: {error}");
            }
            return;
        }
        let request = ExecRequest::new(["rm".as_ref(), "-rf".as_ref(), self.directory.as_os_str()]);
        for guest in [1, 2] {
            // In the memory of a guest that may have died meanwhile.
            let _ = self.execute(guest, &request, None, "rm");
        }
    }
}

/// The CPU of this machine that a guest runs on, by its user: its processes are pinned.
fn cpu_of(uid: u32) -> Option<usize> {
    let statuses = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| {
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        fs::read_to_string(entry.path().join("status")).ok()
    });
    statuses
        .filter(|status| {
            field(status, "Uid:")
                .is_some_and(|uids| uids.split_whitespace().next() == Some(&uid.to_string()))
        })
        .find_map(|status| field(&status, "Cpus_allowed_list:")?.trim().parse().ok())
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name))
}

/// Collects what a program prints.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

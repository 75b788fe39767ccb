//! `vshmem doctor`: what this machine has and lacks.

pub mod devices;
mod lab;
mod left;
mod limits;
mod line;
mod memory;
pub mod monitors;
mod notify;
mod origin;
mod shared_memory;

use std::process::ExitCode;

use clap::Args;
use vshmem_session::Whose;

use crate::choice::{self, Choice};
use crate::failure::Outcome;
use crate::{built, pool, show};

use line::Line;
use origin::Origin;

use super::run;

/// Say what this machine has and lacks, with a remedy for each.
#[derive(Debug, Args)]
#[command(
    after_help = "ok: works; note: works, and could be better; MISS: prevents `vshmem run`, or what is called \
optional.
Run it on the host and in each guest. Exit code 1 when something that is not optional \
is missing."
)]
pub struct Doctor {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

impl Doctor {
    /// Looks. Exit code 1 when `vshmem run` cannot work, or not well; the lab is an extra.
    pub fn carry_out(self) -> Outcome {
        let origin = Origin::find();
        let mut needed = vec![links(), shared_memory::line(), library(&origin), pools(), chosen()];
        needed.push(devices::atomics());
        needed.extend(devices::ivshmem(&origin.driver()));
        needed.extend(devices::nvdimm());
        needed.extend(monitors::xen());
        needed.extend(memory::speeds(&origin.driver()));
        needed.extend(limits::all());
        let works = needed.iter().all(|line| line.good);
        needed.push(memory::huge_pages());
        needed.extend(memory::home_nodes());
        needed.extend(notify::all());
        needed.extend(left::line());
        needed.push(monitors::mpi(&origin));
        needed.extend(monitors::ucx());
        if origin != Origin::LabGuest {
            needed.extend(monitors::libvirt());
            needed.extend(lab::lines());
            needed.extend([driver(&origin)]);
        }
        let lines = needed;
        if self.json {
            show::json(&lines)?;
        } else {
            for line in &lines {
                let mark = match (line.good, &line.remedy) {
                    (true, None) => "ok  ",
                    (true, Some(_)) => "note",
                    (false, _) => "MISS",
                };
                show::line(format!("{mark} {}: {}", line.what, show::sanitized(&line.found)))?;
                if let Some(remedy) = &line.remedy {
                    show::line(format!("     remedy: {}", show::sanitized(remedy)))?;
                }
            }
        }
        Ok(if works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The links of this machine, each in the grade in which it works here.
fn links() -> Line {
    let mut links = vec!["local (files in /dev/shm and /dev/hugepages)".to_owned()];
    for pool in &vshmem_session::list_devices() {
        let grade = if pool.grade.is_empty() { String::new() } else { format!(", {}", pool.grade) };
        links.push(format!("{} ({}{grade})", pool.kind, pool.path.display()));
    }
    Line::good("links", links.join("; "))
}

fn library(origin: &Origin) -> Line {
    const WHAT: &str = "preload library";
    match run::library() {
        Ok(path) => Line::good(WHAT, path.display().to_string()),
        Err(failure) => Line::bad(WHAT, failure.to_string(), origin.library()),
    }
}

fn pools() -> Line {
    const WHAT: &str = "pools";
    let rows = pool::overview(Whose::Mine);
    let unread = rows.iter().filter(|row| row.unread).count();
    let denied = rows.iter().filter(|row| row.denied).count();
    let broken: Vec<_> = rows.iter().filter(|row| !row.denied && row.error.is_some()).collect();
    let mut found = format!("{} on this machine", rows.len());
    for (count, what) in [(denied, "closed to you"), (unread, "other users', not read")] {
        if count > 0 {
            found.push_str(&format!(", {count} of them {what}"));
        }
    }
    if broken.is_empty() {
        Line::good(WHAT, found)
    } else {
        // They do no harm: the one that `vshmem run` takes has a line of its own.
        let sentences: Vec<&str> = broken.iter().filter_map(|row| row.error.as_deref()).collect();
        let removals: Vec<String> =
            broken.iter().map(|row| format!("`vshmem pool rm {}`", row.path.display())).collect();
        Line::note(
            WHAT,
            format!("{found}, of which {} cannot be read: {}", broken.len(), sentences.join("; ")),
            format!(
                "what each sentence says, or, as nobody needs it any more: {}",
                removals.join(", ")
            ),
        )
    }
}

fn chosen() -> Line {
    const WHAT: &str = "pool that `vshmem run` takes";
    let (word, name) = match choice::choose(None) {
        Ok(Choice::Named(name)) => (name.clone(), name),
        Ok(Choice::Given { path, name }) => (
            path.display().to_string(),
            format!("{} (the only one given to this machine)", show::sanitized(&name)),
        ),
        Ok(Choice::Private) => {
            return Line::good(
                WHAT,
                format!("{} (private, made when needed)", choice::private_name()),
            );
        }
        Err(error) => {
            return Line::bad(
                WHAT,
                error.to_string(),
                "`export VSHMEM_POOL=NAME` with the pool that is meant; `vshmem pool ls` lists them",
            );
        }
    };
    match vshmem_session::find(&word) {
        Ok(link) => {
            let manned = if vshmem_session::Role::Agent.is_held(link.path()) {
                "its agent runs"
            } else {
                "no agent runs, as no process uses it here"
            };
            Line::good(WHAT, format!("{name}; {manned}"))
        }
        Err(error) => Line::bad(
            WHAT,
            error.to_string(),
            "`unset VSHMEM_POOL`, or `export VSHMEM_POOL=NAME` with one that `vshmem pool ls` lists",
        ),
    }
}

/// The driver that the lab gives to its QEMU guests.
fn driver(origin: &Origin) -> Line {
    const WHAT: &str = "driver for QEMU guests (optional)";
    match built::driver() {
        Some(path) => Line::good(WHAT, path.display().to_string()),
        None => Line::note(
            WHAT,
            "not built: the lab's QEMU guests have no interrupts, and only root can use a pool there",
            origin.lab_driver(),
        ),
    }
}

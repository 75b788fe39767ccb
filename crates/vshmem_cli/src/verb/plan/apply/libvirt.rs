//! Domains of libvirt, by its command virsh. A domain is known by a UUID that is noted before it is
//! defined, so that nobody else's is ever removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vshmem_plan::{Guest, form};

use super::journal::{Journal, moment};
use super::place::Place;
use super::state::Change;
use crate::failure::{Failure, failed};

/// How domains are started.
#[derive(Debug)]
pub struct Start {
    /// Without hardware virtualisation.
    pub emulated: bool,
    /// libvirt's address.
    pub connect: String,
    /// Where the domains' files are, with disks and network; `None`: as the plan has them.
    pub domains: Option<PathBuf>,
}

impl Start {
    /// Refuses a name that is taken.
    pub fn require_free(&self, place: &Place, guest: &Guest) -> Result<(), Failure> {
        let name = &guest.name;
        if virsh(place, &self.connect, &["list", "--all", "--name"])?
            .lines()
            .any(|line| line == name)
        {
            return failed(format!(
                "{name}: libvirt has a domain of that name already. `virsh undefine {name}` removes it"
            ));
        }
        Ok(())
    }

    /// Defines and starts a domain.
    pub fn carry_out(&self, journal: &mut Journal<'_>, number: usize) -> Result<(), Failure> {
        let name = journal.state.plan.guests[number].name.clone();
        let (uuid, xml) = identified(&name, &self.domain(journal, number)?)?;
        let directory = journal.place.make_guests(&journal.state.name)?;
        let file = directory.join(format!("{name}.xml"));
        fs::write(&file, xml)
            .or_else(|error| failed(format!("{}: cannot write it: {error}", file.display())))?;
        let connect = self.connect.clone();
        journal.record(Change::Domain { name, uuid: uuid.clone(), connect })?;
        let place = journal.place;
        virsh(place, &self.connect, &["define", &file.to_string_lossy()])?;
        moment();
        virsh(place, &self.connect, &["start", &uuid])?;
        moment();
        Ok(())
    }

    fn domain(&self, journal: &Journal<'_>, number: usize) -> Result<String, Failure> {
        let plan = &journal.state.plan;
        let (file, text) = form::libvirt(plan, self.emulated).swap_remove(number);
        let Some(directory) = &self.domains else { return Ok(text) };
        let file = directory.join(file);
        fs::read_to_string(&file).or_else(|error| {
            failed(format!(
                "{}: cannot read the domain: {error}. `vshmem plan --as libvirt --output {}` writes it",
                file.display(),
                directory.display()
            ))
        })
    }
}

/// The domain's UUID, and its text with it.
fn identified(name: &str, text: &str) -> Result<(String, String), Failure> {
    let title = format!("<name>{name}</name>");
    let Some(place) = text.find(&title) else {
        return failed(format!("{name}: the domain's file has no line {title}"));
    };
    if let Some((_, rest)) = text.split_once("<uuid>") {
        let uuid = rest.split('<').next().unwrap_or_default().trim().to_owned();
        return Ok((uuid, text.to_owned()));
    }
    const RANDOM: &str = "/proc/sys/kernel/random/uuid";
    let uuid = fs::read_to_string(RANDOM)
        .or_else(|error| failed(format!("{RANDOM}: cannot read it: {error}")))?;
    let uuid = uuid.trim().to_owned();
    let (before, after) = text.split_at(place + title.len());
    Ok((uuid.clone(), format!("{before}\n  <uuid>{uuid}</uuid>{after}")))
}

/// Ends a domain and removes its definition, if it is there.
pub fn forget(place: &Place, connect: &str, uuid: &str) -> Result<(), Failure> {
    let is_listed = |words: &[&str]| -> Result<bool, Failure> {
        Ok(virsh(place, connect, words)?.lines().any(|line| line.trim() == uuid))
    };
    if is_listed(&["list", "--uuid"])? {
        virsh(place, connect, &["destroy", uuid])?;
    }
    if is_listed(&["list", "--all", "--uuid"])? {
        virsh(place, connect, &["undefine", uuid])?;
    }
    Ok(())
}

/// Runs virsh; what it prints.
fn virsh(place: &Place, connect: &str, words: &[&str]) -> Result<String, Failure> {
    let mut command = Command::new("virsh");
    command.args(["--quiet", "--connect", connect]).args(words).stdin(place.as_input());
    let shown = || format!("`virsh --connect {connect} {}`", words.join(" "));
    match command.output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            failed(format!("{}: {}", shown(), crate::show::clean(said.trim())))
        }
        Err(error) => failed(format!(
            "{}: cannot start it: {error}. `apt-get install libvirt-clients` installs it",
            shown()
        )),
    }
}

/// What it does for a guest, as commands.
pub fn steps(start: &Start, guest: &Guest) -> Vec<String> {
    let file = format!("{}.xml", guest.name);
    let file = start.domains.as_deref().unwrap_or(Path::new("")).join(file);
    let virsh = format!("virsh --connect {}", start.connect);
    vec![format!("{virsh} define {}", file.display()), format!("{virsh} start {}", guest.name)]
}

//! Domains of libvirt, by its command virsh. A domain is known by a UUID that is recorded before it
//! is defined, so that nobody else's is ever removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vshmem_plan::{Guest, Plan, form};

use super::applied_plan::Change;
use super::journal::{Journal, crash_point};
use super::record_directory::RecordDirectory;
use crate::failure::{Failure, failed};
use crate::uuid;
use vshmem_session::quoted;

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
    /// Refuses a name or a UUID that is taken. What has a UUID that is recorded is removed when the
    /// plan is undone: it must not be that of a domain of somebody else.
    pub fn require_free(
        &self,
        records: &RecordDirectory,
        plan: &Plan,
        number: usize,
    ) -> Result<(), Failure> {
        let name = &plan.guests[number].name;
        let has = |listed: &str, word: &str| -> Result<bool, Failure> {
            let list = virsh(records, &self.connect, &["list", "--all", listed])?;
            Ok(list.lines().any(|line| line.trim() == word))
        };
        if has("--name", name)? {
            return failed(format!(
                "{name}: libvirt has a domain of that name already. `virsh undefine {name}` removes it"
            ));
        }
        let (file, text) = self.domain(plan, number)?;
        let (uuid, _) = identified(name, &file, &text)?;
        if has("--uuid", &uuid)? {
            return failed(format!(
                "{file}: its UUID is that of a domain that exists. Remove the line <uuid>, and the domain gets one of its own"
            ));
        }
        Ok(())
    }

    /// Defines and starts a domain.
    pub fn start_guest(&self, journal: &mut Journal<'_>, number: usize) -> Result<(), Failure> {
        let name = journal.applied.plan.guests[number].name.clone();
        let (file, text) = self.domain(&journal.applied.plan, number)?;
        let (uuid, xml) = identified(&name, &file, &text)?;
        let directory = journal.records.make_guests(&journal.applied.name)?;
        let file = directory.join(format!("{name}.xml"));
        fs::write(&file, xml)
            .or_else(|error| failed(format!("{}: cannot write it: {error}", file.display())))?;
        let connect = self.connect.clone();
        journal.record(Change::Domain { name, uuid: uuid.clone(), connect })?;
        let records = journal.records;
        virsh(records, &self.connect, &["define", &file.to_string_lossy()])?;
        crash_point();
        virsh(records, &self.connect, &["start", &uuid])?;
        crash_point();
        Ok(())
    }

    /// The domain's file, as it is named to the user, and its text.
    fn domain(&self, plan: &Plan, number: usize) -> Result<(String, String), Failure> {
        let (file, text) = form::libvirt(plan, self.emulated).swap_remove(number);
        let Some(directory) = &self.domains else { return Ok((file, text)) };
        let file = directory.join(file).display().to_string();
        match fs::read_to_string(&file) {
            Ok(text) => Ok((file, text)),
            Err(error) => failed(format!(
                "{file}: cannot read the domain: {error}. `vshmem plan --as libvirt --output {}` writes it",
                directory.display()
            )),
        }
    }
}

/// The domain's UUID as libvirt writes it, and its text with it.
fn identified(name: &str, file: &str, text: &str) -> Result<(String, String), Failure> {
    let title = format!("<name>{name}</name>");
    let Some(at) = text.find(&title) else {
        return failed(format!("{file}: it has no line {title}. Name the domain as the plan does"));
    };
    if let Some((_, rest)) = text.split_once("<uuid>") {
        let found = rest.split('<').next().unwrap_or_default().trim();
        return match uuid::parse(found) {
            Some(bytes) => Ok((uuid::shown(&bytes), text.to_owned())),
            None => failed(format!(
                "{file}: {found:?} is no UUID. Remove the line <uuid>, and the domain gets one of its own"
            )),
        };
    }
    let uuid = uuid::shown(&uuid::random()?);
    let (before, after) = text.split_at(at + title.len());
    Ok((uuid.clone(), format!("{before}\n  <uuid>{uuid}</uuid>{after}")))
}

/// Ends a domain and removes its definition, if it is there.
pub fn remove(records: &RecordDirectory, connect: &str, uuid: &str) -> Result<(), Failure> {
    let is_listed = |words: &[&str]| -> Result<bool, Failure> {
        Ok(virsh(records, connect, words)?.lines().any(|line| line.trim() == uuid))
    };
    if is_listed(&["list", "--uuid"])? {
        virsh(records, connect, &["destroy", uuid])?;
    }
    if is_listed(&["list", "--all", "--uuid"])? {
        // Without the option, virsh refuses a domain with UEFI's variables.
        virsh(records, connect, &["undefine", "--keep-nvram", uuid])?;
    }
    Ok(())
}

/// Runs virsh; what it prints.
fn virsh(records: &RecordDirectory, connect: &str, words: &[&str]) -> Result<String, Failure> {
    let mut command = Command::new("virsh");
    command.args(["--quiet", "--connect", connect]).args(words).stdin(records.as_input());
    let shown = || format!("`virsh --connect {connect} {}`", words.join(" "));
    match command.output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            failed(format!("{}: {}", shown(), crate::show::sanitized(said.trim())))
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
    let file = quoted(&file.to_string_lossy());
    let virsh = format!("virsh --connect {}", quoted(&start.connect));
    vec![format!("{virsh} define {file}"), format!("{virsh} start {}", guest.name)]
}

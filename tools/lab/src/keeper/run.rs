//! The keeper's life: it boots the guests, says so, and answers clients until the lab is down.

use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Doing, Error, Result};
use crate::host::directory::{Directory, set_mode};
use crate::host::record::Record;
use crate::host::{admission, json};
use crate::keeper::domain::Domain;
use crate::keeper::process::Process;
use crate::keeper::shared::Shared;
use crate::keeper::site::Site;
use crate::keeper::supervisor::SupervisedGuest;
use crate::keeper::{control_server, namespace};
use crate::machine::machine;
use crate::model::boot::Boot;
use crate::model::names::{DOM0, domain};
use crate::transport::control::{ACKNOWLEDGED, Outcome};

/// Runs a lab's keeper, in the namespaces that [`Lab::up`](crate::Lab::up) made for it. `words` are
/// those that followed the hidden verb. Returns when the lab is down.
pub fn keeper(words: &[OsString]) -> Result<()> {
    let [path] = words else {
        return Err(Error::Argument {
            what: "the keeper's arguments",
            value: format!("{words:?}"),
            rule: "one lab directory; only `lab up` starts a keeper",
        });
    };
    let directory = Directory::at(PathBuf::from(path));
    let record = Record::read(&directory)?.ok_or_else(|| Error::NotUp {
        name: path.to_string_lossy().into_owned(),
        found: "it has no lab.json".into(),
    })?;
    let lab = Arc::new(Shared {
        all_supervised: all_supervised(&record, &directory)?,
        record,
        directory,
    });
    let listener = listen(&lab.directory)?;
    expect_acknowledgement(Arc::clone(&lab));
    let outcome = match boot(&lab) {
        Ok(()) => Outcome::Up,
        Err(error) => Outcome::Failed(error.into()),
    };
    let failed = matches!(outcome, Outcome::Failed(_));
    tell(&outcome);
    if failed {
        lab.close();
        return Ok(());
    }
    control_server::serve(&lab, &listener)
}

fn all_supervised(record: &Record, directory: &Directory) -> Result<Vec<Arc<SupervisedGuest>>> {
    let mut all_supervised: Vec<Arc<SupervisedGuest>> = Vec::new();
    for guest in record.guests() {
        let site: Box<dyn Site> = if record.machines().contains(&guest) {
            Box::new(Process::new(guest, record, directory))
        } else {
            Box::new(Domain::new(guest, directory, Arc::clone(&all_supervised[0])))
        };
        all_supervised.push(SupervisedGuest::start(
            guest,
            record.clone(),
            directory.clone(),
            site,
        )?);
    }
    Ok(all_supervised)
}

fn listen(directory: &Directory) -> Result<UnixListener> {
    let socket = directory.socket();
    let listener = UnixListener::bind(&socket).doing(|| format!("listen on {socket:?}"))?;
    set_mode(&socket, 0o600)?;
    Ok(listener)
}

fn expect_acknowledgement(lab: Arc<Shared>) {
    std::thread::spawn(move || {
        let mut line = String::new();
        let heard = std::io::stdin().lock().read_line(&mut line);
        if heard.is_err() || line.trim() != ACKNOWLEDGED {
            eprintln!("vshmem-lab: `up` has gone before the lab was up: closing it");
            lab.close();
            std::process::exit(1);
        }
    });
}

fn tell(outcome: &Outcome) {
    // If the other side is closed, the missing acknowledgement says so too.
    if let Ok(mut line) = serde_json::to_vec(outcome) {
        line.push(b'\n');
        let _ = std::io::stdout().write_all(&line);
    }
}

fn boot(lab: &Shared) -> Result<()> {
    let Shared { record, directory, all_supervised } = lab;
    namespace::enter(record, directory)?;
    write_orders(record, directory)?;
    for guest in record.guests() {
        admission::require_readable(&directory.boot(guest), record.uid(guest))?;
    }
    let pending: Vec<_> = all_supervised.iter().map(|supervised| supervised.boot()).collect();
    let booted: Vec<Result<()>> = pending.into_iter().map(|pending| pending?.wait()).collect();
    // `up` let them in.
    admission::withdraw(record)?;
    booted.into_iter().collect()
}

/// Writes what each guest's PID 1 shall know where only that guest's user can read it.
fn write_orders(record: &Record, directory: &Directory) -> Result<()> {
    let tokens: Vec<String> = (0..=record.count).map(|_| token()).collect::<Result<_>>()?;
    let machine = machine(record.guest);
    for guest in record.guests() {
        let boot = Boot {
            guest,
            count: record.count,
            dom0: record.guests().contains(&DOM0),
            pool_name: record.pool_name.clone(),
            notify: record.notify,
            stage: machine.stage(guest, directory),
            init: record.init.clone(),
            device_mode: record.device_mode,
            layer: machine.layer(guest),
            awaited_device: machine.awaited_device(record),
            swap: machine.swap(record),
            interface: machine.interface().to_owned(),
            token: tokens[guest as usize].clone(),
            // Only the keeper gives orders to dom0.
            peers: if record.peer_exec { tokens[1..].to_vec() } else { Vec::new() },
        };
        let path = directory.boot(guest);
        json::write(&path, &boot, 0o400)?;
        let (uid, gid) = (
            rustix::fs::Uid::from_raw(record.uid(guest)),
            rustix::fs::Gid::from_raw(record.uid(guest)),
        );
        rustix::fs::chown(&path, Some(uid), Some(gid))
            .doing(|| format!("give {path:?} to {}'s user", domain(guest)))?;
    }
    Ok(())
}

fn token() -> Result<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid")
        .doing(|| "get a random number".into())?;
    Ok(id.trim().to_owned())
}

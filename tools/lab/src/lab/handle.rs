//! A lab that is up: what can be done with it and its guests.

use std::os::fd::OwnedFd;

use crate::check::missing;
use crate::error::{Error, GuestFault, Result};
use crate::host::directory::{Directory, NamingLock};
use crate::host::log::tail;
use crate::host::record::{Outline, Record};
use crate::lab::ask::{ask, remedy};
use crate::lab::down::take_down;
use crate::lab::up::up;
use crate::lab::users::names;
use crate::machine::machine;
use crate::model::names::{DOM0, domain};
use crate::model::{GuestKind, GuestListing, Listing, Missing, UpOptions};
use crate::transport::connection::Connection;
use crate::transport::control::{Control, ControlRequest, Reply};
use crate::transport::relay::relay;
use crate::transport::request::{ExecRequest, Streams};

/// A lab that is up.
#[derive(Debug)]
pub struct Lab {
    directory: Directory,
    record: Record,
}

impl Lab {
    /// What this machine lacks for a lab with guests of that kind. Empty: nothing.
    pub fn check(guest: GuestKind) -> Vec<Missing> {
        missing(guest)
    }

    /// Boots a lab, and returns when commands can be run in all its guests. A lab of that name
    /// whose keeper has died is cleared away first.
    pub fn up(options: &UpOptions) -> Result<Self> {
        let (record, directory) = up(options)?;
        Ok(Lab { directory, record })
    }

    /// Finds a lab that is up.
    pub fn open(name: &str) -> Result<Self> {
        let directory = Directory::of(name)?;
        let not_up = |found: String| Error::NotUp { name: name.to_owned(), found };
        let record = Record::read(&directory)?
            .ok_or_else(|| not_up(format!("there is no {}", directory.path().display())))?;
        if record.living_keeper().is_none() {
            return Err(not_up("its keeper has ended".into()));
        }
        Ok(Lab { directory, record })
    }

    /// The lab's name.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// What its guests are made of, in words.
    pub fn made_of(&self) -> String {
        machine(self.record.guest).made_of(&self.record)
    }

    /// How many guests it has.
    pub fn count(&self) -> u32 {
        self.record.count
    }

    /// The number of the guest with that number or host name (`2` or `guest2`). Xen's `dom0` is
    /// guest 0.
    pub fn guest_named(&self, name: &str) -> Result<u32> {
        let named = || name.strip_prefix("guest").unwrap_or(name).parse().ok();
        let number = if name == domain(DOM0) { Some(DOM0) } else { named() };
        match number {
            Some(number) => self.known(number),
            None => Err(Error::Argument {
                what: "the guest",
                value: name.to_owned(),
                rule: "write its number (from 1) or its name, as `vshmem lab ls` shows them",
            }),
        }
    }

    /// Runs a command in a guest with this process's standard streams. Returns its exit code; 128 +
    /// n after signal n.
    pub fn exec(&self, guest: u32, request: &ExecRequest) -> Result<i32> {
        self.exec_with(guest, request, Streams::inherit()?)
    }

    /// Runs a command in a guest with the given streams. Any number of commands may run at once.
    pub fn exec_with(&self, guest: u32, request: &ExecRequest, streams: Streams) -> Result<i32> {
        self.known(guest)?;
        let (control, reply, connection) = self.ask(&ControlRequest::Connect(guest))?;
        match (reply, connection) {
            (Reply::Connected(token), Some(connection)) => {
                relay(guest, Connection::new(connection), Some(control), request, token, streams)
            }
            (other, _) => Err(self.unexpected(other)),
        }
    }

    /// The lab and its guests as they are now.
    pub fn list(&self) -> Result<Listing> {
        let guests = match self.ask(&ControlRequest::List)? {
            (_, Reply::Guests(guests), _) => guests,
            (_, other, _) => return Err(self.unexpected(other)),
        };
        Ok(self.listing(guests))
    }

    /// The labs of this user that another release has made: why this one cannot list them.
    pub fn not_understood() -> Vec<Error> {
        let record = |name: String| Record::read(&Directory::of(&name)?);
        names().into_iter().filter_map(|name| record(name).err()).collect()
    }

    /// All labs of this user that this release understands, those without a keeper too.
    pub fn list_all() -> Result<Vec<Listing>> {
        // At the same time: each keeper that does not answer takes some seconds.
        let mut all: Vec<Listing> = std::thread::scope(|scope| {
            let asked: Vec<_> =
                names().into_iter().map(|name| scope.spawn(move || list_one(&name))).collect();
            asked.into_iter().filter_map(|one| one.join().ok()?).collect()
        });
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    /// SIGKILLs a whole guest; returns when it is dead and its death notice given.
    pub fn kill(&self, guest: u32) -> Result<()> {
        self.simple(guest, &ControlRequest::Kill(guest))
    }

    /// Stops a guest: its kernel at once, a program of it at its next system call, fault or
    /// interrupt. A paused guest is silent, not dead.
    pub fn pause(&self, guest: u32) -> Result<()> {
        self.simple(guest, &ControlRequest::Pause(guest, true))
    }

    /// Lets a paused guest go on.
    pub fn resume(&self, guest: u32) -> Result<()> {
        self.simple(guest, &ControlRequest::Pause(guest, false))
    }

    /// Boots a dead guest again; refused until it is dead.
    pub fn restart(&self, guest: u32) -> Result<()> {
        self.simple(guest, &ControlRequest::Restart(guest))
    }

    /// The tail of a guest's console.
    pub fn console(&self, guest: u32) -> Result<String> {
        self.known(guest)?;
        Ok(tail(&self.directory.console(guest)))
    }

    /// Takes the lab down: nothing of it is left.
    pub fn down(self) -> Result<()> {
        take_down(&self.record, &self.directory)
    }

    /// Takes a lab of that name down, whatever is left of it. False if there was nothing.
    pub fn down_named(name: &str) -> Result<bool> {
        let directory = Directory::of(name)?;
        if !directory.path().exists() {
            return Ok(false);
        }
        match Record::read(&directory) {
            Ok(Some(record)) => take_down(&record, &directory)?,
            // Only the command that made it can end its guests and give notice of their deaths.
            Err(error) if Outline::read(&directory).living_keeper().is_some() => return Err(error),
            // Nothing is started before the record is written, and guests end with their keeper.
            Ok(None) | Err(_) => {
                let _lock = NamingLock::take()?;
                if Record::read(&directory).ok().flatten().is_none() {
                    directory.remove()?;
                }
            }
        }
        Ok(true)
    }

    fn known(&self, guest: u32) -> Result<u32> {
        if self.record.guests().contains(&guest) {
            return Ok(guest);
        }
        Err(Error::NoSuchGuest { name: self.record.name.clone(), guest, count: self.record.count })
    }

    fn simple(&self, guest: u32, wish: &ControlRequest) -> Result<()> {
        self.known(guest)?;
        match self.ask(wish)? {
            (_, Reply::Done, _) => Ok(()),
            (_, other, _) => Err(self.unexpected(other)),
        }
    }

    fn ask(&self, wish: &ControlRequest) -> Result<(Control, Reply, Option<OwnedFd>)> {
        ask(&self.record, &self.directory, wish)
    }

    fn unexpected(&self, reply: Reply) -> Error {
        match reply {
            Reply::Fault(fault) => fault.into(),
            other => {
                GuestFault::Keeper(format!("{other:?}, which is not an answer to the request"))
                    .into()
            }
        }
    }

    fn listing(&self, guests: Vec<GuestListing>) -> Listing {
        let keeper = self.record.living_keeper();
        let is_silent = guests.is_empty();
        Listing {
            name: self.record.name.clone(),
            guest: self.record.guest,
            made_of: self.made_of(),
            pool_name: self.record.pool_name.clone(),
            remedy: keeper.filter(|_| is_silent).map(|keeper| remedy(self.name(), keeper)),
            keeper,
            guests,
        }
    }
}

/// One lab, if this release understands it.
fn list_one(name: &str) -> Option<Listing> {
    let directory = Directory::of(name).ok()?;
    let record = Record::read(&directory).ok()??;
    let lab = Lab { directory, record };
    Some(lab.list().unwrap_or_else(|_| lab.listing(Vec::new())))
}

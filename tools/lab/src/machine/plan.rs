//! A kind of machine, and one guest to be started on it.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::host::directory::Directory;
use crate::host::record::Record;
use crate::model::names::tap;
use crate::model::{Missing, UpOptions};

/// One guest to be started.
pub(crate) struct Plan<'a> {
    pub(crate) guest: u32,
    pub(crate) record: &'a Record,
    pub(crate) directory: &'a Directory,
}

impl Plan<'_> {
    /// The tap that the guest's interface hangs on.
    pub(crate) fn tap(&self) -> String {
        tap(self.guest)
    }

    pub(crate) fn uid(&self) -> u32 {
        self.record.uid(self.guest)
    }
}

/// What a domain of another guest is made from.
pub(crate) struct Description {
    /// The file that describes it to the tools there, by its path there.
    pub(crate) config: PathBuf,
    /// The directory on the host with all that is needed to boot.
    pub(crate) directory: PathBuf,
}

/// A kind of machine.
pub(crate) trait Machine: Send + Sync {
    /// What the host lacks for this kind.
    fn missing(&self) -> Vec<Missing>;

    /// What a guest is made of, in words.
    fn made_of(&self, record: &Record) -> String;

    /// The name of a guest's network interface.
    fn interface(&self) -> &'static str;

    /// How long a guest may take to boot.
    fn boot_time(&self) -> Duration;

    /// Makes what all guests of a lab boot from, and writes what is chosen into the record.
    /// `binary` is their PID 1.
    fn prepare(
        &self,
        _record: &mut Record,
        _directory: &Directory,
        _binary: &Path,
        _options: &UpOptions,
    ) -> Result<()> {
        Ok(())
    }

    /// A device that the guest must wait for: its drivers find it in their own time.
    fn awaited_device(&self, _record: &Record) -> Option<PathBuf> {
        None
    }

    /// The disk that the guest swaps to.
    fn swap(&self, _record: &Record) -> Option<PathBuf> {
        None
    }

    /// Where a guest finds its programs.
    fn stage(&self, _guest: u32, directory: &Directory) -> PathBuf {
        directory.stage()
    }

    /// By this name the machine offers files that the guest shall lay over the host's.
    fn layer(&self, _guest: u32) -> Option<String> {
        None
    }

    /// Writes what a domain boots from, anew for each boot.
    fn describe(&self, _plan: &Plan<'_>) -> Result<Description> {
        Err(Error::Argument {
            what: "the guest's machine",
            value: "none".into(),
            rule: "it must be of a kind whose guests share one",
        })
    }

    /// A connection or a file that the guest's process inherits.
    fn line(&self, _plan: &Plan<'_>) -> Result<Option<OwnedFd>> {
        Ok(None)
    }

    /// A UNIX socket at the host's end of the guest's serial port for its agent, if the agent is
    /// reached that way.
    fn port(&self, _plan: &Plan<'_>) -> Option<PathBuf> {
        None
    }

    /// Ends what was started for all guests of the lab. They are dead.
    fn end(&self) {}

    /// The program and its arguments. Its standard output is the console; it finds its private
    /// directory in TMPDIR, and what it inherited at that descriptor.
    fn words(&self, plan: &Plan<'_>, line: Option<i32>) -> Vec<OsString>;
}

//! A guest that is processes of its own on the host.

use std::io::PipeWriter;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;

use crate::error::{Doing, Result};
use crate::held::held;
use crate::host::directory::Directory;
use crate::host::guest_processes;
use crate::host::guest_processes::GuestProcesses;
use crate::host::record::Record;
use crate::keeper::port;
use crate::keeper::site::{Life, Site};
use crate::machine::{Plan, contained, machine};
use crate::model::names::domain;
use crate::transport::mux::Mux;

/// The processes of a guest: all those of its user.
pub(super) struct Process {
    guest: u32,
    uid: u32,
    /// Those that are not its user's yet are marked with this.
    mark: PathBuf,
}

impl Process {
    pub(super) fn new(guest: u32, record: &Record, directory: &Directory) -> Self {
        Process { guest, uid: record.uid(guest), mark: directory.guest(guest) }
    }

    fn guest_processes(&self) -> GuestProcesses {
        GuestProcesses::take(&(self.uid..self.uid + 1), &self.mark)
    }
}

impl Site for Process {
    fn start(
        &self,
        plan: &Plan<'_>,
        screen: PipeWriter,
        _unwanted: &dyn Fn() -> bool,
    ) -> Result<Box<dyn Life>> {
        let making = || format!("start {}", domain(self.guest));
        let machine = machine(plan.record.guest);
        // One at a time: a peer guest that inherited the connection too would hold it open after
        // this guest's death.
        static STARTING: Mutex<()> = Mutex::new(());
        let alone = held(STARTING.lock());
        let line = machine.line(plan)?;
        if let Some(line) = &line {
            rustix::io::fcntl_setfd(line, rustix::io::FdFlags::empty()).doing(making)?;
        }
        let words = machine.words(plan, line.as_ref().map(AsRawFd::as_raw_fd));
        let mut child = contained(plan, words)
            .stdin(Stdio::piped())
            .stdout(screen.try_clone().doing(making)?)
            .stderr(screen)
            .spawn()
            .doing(making)?;
        drop(alone);
        let port = match machine.port(plan) {
            Some(socket) => Some(port::connect(&socket, &mut child, self.guest)?),
            None => None,
        };
        Ok(Box::new(Running { keyboard: child.stdin.take(), child, port }))
    }

    fn kill(&self) {
        guest_processes::signal(self.guest_processes().targets(), Signal::KILL);
    }

    /// The kernel's processes alone are stopped: a program of the guest stops at its next system
    /// call, fault or interrupt. A stop signal of its own would be taken for the program's.
    fn pause(&self, pause: bool) -> Result<()> {
        let signal = if pause { Signal::STOP } else { Signal::CONT };
        guest_processes::signal(&self.guest_processes().untraced, signal);
        Ok(())
    }

    fn clear(&self) {
        let uids = self.uid..self.uid + 1;
        while let Err(left) =
            guest_processes::exterminate(&uids, &self.mark, Duration::from_secs(10))
        {
            let name = domain(self.guest);
            eprintln!("vshmem-lab: {name}: processes {left:?} outlive SIGKILL");
        }
    }
}

struct Running {
    child: Child,
    port: Option<Arc<Mux>>,
    /// Kept open: the console's input must not end.
    keyboard: Option<ChildStdin>,
}

impl Life for Running {
    fn port(&self) -> Option<Arc<Mux>> {
        self.port.clone()
    }

    fn wait(&mut self) -> String {
        let how = match self.child.wait() {
            Ok(status) => format!("ended by itself or killed from outside: {status}"),
            Err(error) => format!("lost: {error}"),
        };
        drop(self.keyboard.take());
        how
    }
}

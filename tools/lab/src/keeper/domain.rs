//! A guest that is a domain of another guest, dom0: made, stopped and destroyed by Xen's tools
//! there. The tool that made it stays for as long as the domain lives, so the end of that command
//! in dom0 is the domain's end.

use std::fs;
use std::io::{PipeWriter, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Doing, Error, GuestFault, Result};
use crate::held::held;
use crate::host::directory::Directory;
use crate::host::json;
use crate::keeper::port;
use crate::keeper::site::{Life, Site};
use crate::keeper::supervisor::SupervisedGuest;
use crate::machine::{Plan, machine};
use crate::model::GuestState;
use crate::model::boot::Boot;
use crate::model::names::{AGENT_PORT, DOM0, address, domain};
use crate::transport::connection::Connection;
use crate::transport::mux::Mux;
use crate::transport::relay::relay;
use crate::transport::request::{ExecRequest, Streams};

/// How long a domain may take to accept a connection, and then to answer, while others boot
/// beside it.
const ANSWER: Duration = Duration::from_secs(30);

/// How long dom0's own end may take to be noticed after its domains'.
const END: Duration = Duration::from_secs(10);

/// A domain of dom0.
pub(super) struct Domain {
    guest: u32,
    dom0: Arc<SupervisedGuest>,
    /// What the keeper must know to give orders there.
    orders: PathBuf,
}

impl Domain {
    pub(super) fn new(guest: u32, directory: &Directory, dom0: Arc<SupervisedGuest>) -> Self {
        Domain { guest, dom0, orders: directory.boot(DOM0) }
    }

    /// Runs a command in dom0.
    fn order(&self, words: &[&str], streams: Streams) -> Result<i32> {
        let gone = || self.dom0.dead(self.dom0.condition().how);
        let port = self.dom0.port().ok_or_else(gone)?;
        let unreachable =
            |error: std::io::Error| GuestFault::Unreachable { guest: DOM0, why: error.to_string() };
        let connection = Connection::new(port.open(port::ANSWER).map_err(unreachable)?);
        let boot: Option<Boot> = json::read(&self.orders)?;
        let token = boot.map(|boot| boot.token).unwrap_or_default();
        relay(DOM0, connection, None, &ExecRequest::new(words), token, streams)
    }

    /// Has Xen's tool do something about this domain.
    fn xl(&self, verb: &str) -> Result<()> {
        let name = domain(self.guest);
        let words = ["xl", verb, &name];
        let said = Said::default();
        let code = self.order(&words, said.streams())?;
        if code == 0 {
            return Ok(());
        }
        Err(Error::Tool {
            command: format!("{} (in dom0)", words.join(" ")),
            status: format!("exit code {code}"),
            output: said.text(),
        })
    }

    /// Is there no such domain any more?
    fn is_gone(&self) -> bool {
        // With dom0's machine all its domains end.
        matches!(self.dom0.condition().state, GuestState::Dead | GuestState::Dying)
            || self
                .order(&["xl", "domid", &domain(self.guest)], Said::default().streams())
                .is_ok_and(|code| code != 0)
    }
}

impl Site for Domain {
    fn start(
        &self,
        plan: &Plan<'_>,
        screen: PipeWriter,
        unwanted: &dyn Fn() -> bool,
    ) -> Result<Box<dyn Life>> {
        self.await_dom0(unwanted)?;
        let description = machine(plan.record.guest).describe(plan)?;
        let making = || format!("start {}", domain(self.guest));
        let (keyboard_end, keyboard) = std::io::pipe().doing(making)?;
        let streams = Streams {
            stdin: Some(keyboard_end.into()),
            stdout: Box::new(screen.try_clone().doing(making)?),
            stderr: Box::new(screen),
        };
        let (tell, ended) = channel();
        let (own, config) = (
            Domain { guest: self.guest, dom0: Arc::clone(&self.dom0), orders: self.orders.clone() },
            description.config,
        );
        std::thread::Builder::new()
            .name(format!("domain{}", self.guest))
            .spawn(move || {
                let config = config.to_string_lossy();
                // In the foreground, with the console.
                let _ = tell.send(own.order(&["xl", "create", "-q", "-F", "-c", &config], streams));
            })
            .doing(making)?;
        Ok(Box::new(Created {
            guest: self.guest,
            orders: plan.directory.boot(self.guest),
            ended,
            dom0: Arc::clone(&self.dom0),
            directory: description.directory,
            keyboard: Some(keyboard.into()),
        }))
    }

    fn kill(&self) {
        if self.is_gone() {
            return;
        }
        if let Err(error) = self.xl("destroy")
            && !self.is_gone()
        {
            eprintln!("vshmem-lab: {}: {error}", domain(self.guest));
        }
    }

    fn pause(&self, pause: bool) -> Result<()> {
        self.xl(if pause { "pause" } else { "unpause" })
    }

    fn clear(&self) {
        while !self.is_gone() {
            self.kill();
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Domain {
    fn await_dom0(&self, unwanted: &dyn Fn() -> bool) -> Result<()> {
        loop {
            let condition = self.dom0.condition();
            match condition.state {
                GuestState::Running => return Ok(()),
                GuestState::Booting if !unwanted() => {
                    self.dom0.await_change(Duration::from_millis(200));
                }
                GuestState::Booting => return Err(GuestFault::Keeper("killed".into()).into()),
                GuestState::Dying | GuestState::Dead => {
                    return Err(self.dom0.dead(condition.how).into());
                }
            }
        }
    }
}

/// Sets a domain's clock by the host's, as dom0's is set by the machine's. A domain has none to set
/// it by, and its kernel counts ticks while it boots: those that come while another domain has the
/// processor are lost.
fn set_clock(guest: u32, orders: &Path) -> Result<()> {
    let boot: Option<Boot> = json::read(orders)?;
    let token = boot.map(|boot| boot.token).unwrap_or_default();
    let to = SocketAddr::from((address(guest), AGENT_PORT));
    let line = TcpStream::connect_timeout(&to, ANSWER)
        .doing(|| format!("connect to {}'s agent", domain(guest)))?;
    let connection = Connection::new(line);
    // If the domain ends now, that is not reported on this line.
    connection.set_timeout(ANSWER).doing(|| "set a limit".into())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let words = ["date".into(), "-s".into(), format!("@{:.3}", now.as_secs_f64())];
    let said = Said::default();
    let request = ExecRequest::new(&words);
    match relay(guest, connection, None, &request, token, said.streams())? {
        0 => Ok(()),
        code => Err(Error::Tool {
            command: words.join(" "),
            status: format!("exit code {code}"),
            output: said.text(),
        }),
    }
}

struct Created {
    guest: u32,
    /// What the keeper must know to give orders there.
    orders: PathBuf,
    ended: Receiver<Result<i32>>,
    dom0: Arc<SupervisedGuest>,
    /// What it boots from.
    directory: PathBuf,
    /// Kept open: the console's input must not end.
    keyboard: Option<OwnedFd>,
}

impl Life for Created {
    fn port(&self) -> Option<Arc<Mux>> {
        None
    }

    fn has_booted(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
        if let Err(error) = set_clock(self.guest, &self.orders) {
            eprintln!("vshmem-lab: {}: its clock is not set: {error}", domain(self.guest));
        }
    }

    fn wait(&mut self) -> String {
        let ended = self.ended.recv();
        drop(self.keyboard.take());
        let _ = fs::remove_dir_all(&self.directory);
        match ended {
            Ok(Ok(0)) => "shut down by itself, or destroyed from outside".into(),
            Ok(Ok(code)) => format!("`xl create` ended with exit code {code}"),
            // Which of the two is seen first when dom0 dies is left to chance.
            _ if self.dom0.await_end(END) => {
                format!("dom0 has ended ({}), and its domains with it", self.dom0.condition().how)
            }
            // dom0 goes on, but not the command that looks after the domain.
            Ok(Err(error)) => format!("lost: {error}"),
            Err(_) => "lost".into(),
        }
    }
}

/// What a command says, for an error.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    fn streams(&self) -> Streams {
        Streams { stdin: None, stdout: Box::new(self.clone()), stderr: Box::new(self.clone()) }
    }

    fn text(&self) -> String {
        let said = held(self.0.lock());
        String::from_utf8_lossy(&said).trim().to_owned()
    }
}

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        held(self.0.lock()).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

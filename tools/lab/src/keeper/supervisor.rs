//! The supervisor of a guest: one thread that starts it, notices its death, waits until nothing of
//! it is left and gives notice. A guest's processes are children of that thread, so it lives as
//! long as the keeper.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::error::{Doing, Error, GuestFault, Result};
use crate::held::held;
use crate::host::directory::Directory;
use crate::host::log::tail;
use crate::host::record::Record;
use crate::keeper::console;
use crate::keeper::console::Word;
use crate::keeper::death_command::run_death_command;
use crate::keeper::site::{Life, Site};
use crate::machine::{Plan, machine};
use crate::model::GuestState;
use crate::model::names::{death_command, domain};
use crate::transport::control;
use crate::transport::control::Reply;
use crate::transport::mux::Mux;

/// How long the console of a machine that has ended may take to be read.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A guest and the state that its supervisor keeps.
pub(super) struct SupervisedGuest {
    pub(super) guest: u32,
    record: Record,
    directory: Directory,
    condition: Mutex<Condition>,
    changed: Condvar,
    site: Box<dyn Site>,
    orders: SyncSender<Order>,
    /// To its agent, if that is reached by a serial port.
    port: Mutex<Option<Arc<Mux>>>,
    watchers: Mutex<HashMap<u64, UnixStream>>,
    next_watcher: AtomicU64,
}

#[derive(Debug, Clone)]
pub(super) struct Condition {
    pub(super) state: GuestState,
    /// What ended it.
    pub(super) how: String,
    killed: bool,
}

struct Order {
    reply: SyncSender<Result<()>>,
}

/// A boot that is under way.
pub(super) struct Boot(Receiver<Result<()>>);

impl Boot {
    /// Waits until the guest is up, or will not be.
    pub(super) fn wait(self) -> Result<()> {
        self.0
            .recv()
            .unwrap_or_else(|_| Err(GuestFault::Keeper("a supervisor has died".into()).into()))
    }
}

impl SupervisedGuest {
    /// A guest that is not started yet, and its supervisor.
    pub(super) fn start(
        guest: u32,
        record: Record,
        directory: Directory,
        site: Box<dyn Site>,
    ) -> Result<Arc<Self>> {
        let (orders, inbox) = sync_channel(1);
        let condition =
            Condition { state: GuestState::Dead, how: "not started".into(), killed: false };
        let supervised = Arc::new(SupervisedGuest {
            guest,
            record,
            directory,
            condition: Mutex::new(condition),
            changed: Condvar::new(),
            site,
            orders,
            port: Mutex::default(),
            watchers: Mutex::default(),
            next_watcher: AtomicU64::new(0),
        });
        let own = Arc::clone(&supervised);
        std::thread::Builder::new()
            .name(format!("supervisor{guest}"))
            .spawn(move || own.guard(&inbox))
            .doing(|| format!("start {}'s supervisor", domain(guest)))?;
        Ok(supervised)
    }

    pub(super) fn condition(&self) -> Condition {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Condition> {
        held(self.condition.lock())
    }

    fn set(&self, state: GuestState, how: &str) {
        let mut condition = self.lock();
        condition.state = state;
        condition.how = how.to_owned();
        self.changed.notify_all();
    }

    /// The way to its agent, if that is a serial port.
    pub(super) fn port(&self) -> Option<Arc<Mux>> {
        held(self.port.lock()).clone()
    }

    /// Begins to boot the guest, if it is dead.
    pub(super) fn boot(&self) -> Result<Boot> {
        let mut condition = self.lock();
        if condition.state != GuestState::Dead {
            return Err(GuestFault::Busy {
                guest: self.guest,
                state: condition.state.to_string(),
                rule: "it can be booted only when it is dead, its namespace empty and its death notice given".into(),
            }
            .into());
        }
        *condition = Condition { state: GuestState::Booting, how: String::new(), killed: false };
        let (reply, answer) = sync_channel(1);
        self.orders.try_send(Order { reply }).map_err(|_| {
            GuestFault::Keeper(format!("{}'s supervisor does not take orders", domain(self.guest)))
        })?;
        Ok(Boot(answer))
    }

    /// Kills the whole guest. It is dead when [`await_death`](Self::await_death) says so.
    pub(super) fn kill(&self) {
        self.lock().killed = true;
        self.site.kill();
    }

    /// Stops the guest, or lets it go on.
    pub(super) fn pause(&self, pause: bool) -> Result<()> {
        self.site.pause(pause)
    }

    /// Waits until the guest's condition changes, or so long.
    pub(super) fn await_change(&self, within: Duration) {
        let _ = self.changed.wait_timeout(self.lock(), within);
    }

    /// Waits until the guest is dead; false if it is not by then.
    pub(super) fn await_death(&self, within: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), within, |now| now.state != GuestState::Dead);
        held(waited).0.state == GuestState::Dead
    }

    /// Waits until the guest has ended, though its death notice may not be given yet; false if it
    /// has not by then.
    pub(super) fn await_end(&self, within: Duration) -> bool {
        let ended = |state| matches!(state, GuestState::Dying | GuestState::Dead);
        let waited = self.changed.wait_timeout_while(self.lock(), within, |now| !ended(now.state));
        ended(held(waited).0.state)
    }

    /// Has the guest's death reported on that line; the number ends it.
    pub(super) fn watch(&self, line: UnixStream) -> u64 {
        let number = self.next_watcher.fetch_add(1, Ordering::Relaxed);
        held(self.watchers.lock()).insert(number, line);
        number
    }

    pub(super) fn unwatch(&self, number: u64) {
        held(self.watchers.lock()).remove(&number);
    }

    fn guard(&self, inbox: &Receiver<Order>) {
        while let Ok(order) = inbox.recv() {
            let how = match self.launch() {
                Ok((life, words)) => self.live(life, &words, &order.reply),
                Err(error) => {
                    let how = error.to_string();
                    let _ = order.reply.send(Err(error));
                    how
                }
            };
            self.reap(&how);
        }
    }

    fn launch(&self) -> Result<(Box<dyn Life>, Receiver<Word>)> {
        let plan = Plan { guest: self.guest, record: &self.record, directory: &self.directory };
        let (console, screen) =
            std::io::pipe().doing(|| format!("make {}'s console", domain(self.guest)))?;
        let (sender, words) = channel();
        console::keep(console, self.directory.console(self.guest), sender)?;
        let life = match self.site.start(&plan, screen, &|| self.lock().killed) {
            Ok(life) => life,
            Err(error @ Error::Io { .. }) => {
                // Its last words are on the console, which ends with it.
                let _ = words.recv_timeout(LAST_WORDS);
                let console = tail(&self.directory.console(self.guest));
                let why = error.to_string();
                return Err(GuestFault::BootFailed { guest: self.guest, why, console }.into());
            }
            Err(error) => return Err(error),
        };
        *held(self.port.lock()) = life.port();
        Ok((life, words))
    }

    /// From the start of the guest to its end. Returns what ended it.
    fn live(
        &self,
        mut life: Box<dyn Life>,
        words: &Receiver<Word>,
        reply: &SyncSender<Result<()>>,
    ) -> String {
        let boot_time = machine(self.record.guest).boot_time();
        let mut ended = false;
        let failure = match words.recv_timeout(boot_time) {
            Ok(Word::Ready) => None,
            Ok(Word::Closed) | Err(RecvTimeoutError::Disconnected) => {
                ended = true;
                Some("it ended while booting".to_owned())
            }
            Err(RecvTimeoutError::Timeout) => {
                Some(format!("it was not up after {} s", boot_time.as_secs()))
            }
        };
        match &failure {
            None => {
                life.has_booted();
                self.set(GuestState::Running, "");
                let _ = reply.send(Ok(()));
            }
            Some(_) => self.kill(),
        }
        let how = life.wait();
        if let Some(mut why) = failure {
            if ended {
                why = format!("{why} ({how})");
            }
            let console = tail(&self.directory.console(self.guest));
            let _ = reply.send(Err(GuestFault::BootFailed {
                guest: self.guest,
                why: why.clone(),
                console,
            }
            .into()));
            return why;
        }
        if self.lock().killed { "killed".into() } else { how }
    }

    /// The error for a user of the guest when it is dead.
    pub(super) fn dead(&self, how: String) -> GuestFault {
        GuestFault::Dead { lab: self.record.name.clone(), guest: self.guest, how }
    }

    /// Makes sure that nothing of the guest is left, tells everyone, and lets it be dead.
    fn reap(&self, how: &str) {
        self.set(GuestState::Dying, how);
        self.site.clear();
        let fault = Reply::Fault(self.dead(how.to_owned()));
        for (_, line) in held(self.watchers.lock()).drain() {
            // A client that has gone need not know.
            let _ = control::send(&line, &fault, None);
            let _ = line.shutdown(std::net::Shutdown::Both);
        }
        if let Some(words) = &self.record.on_death
            && let Err(error) = run_death_command(&death_command(words, self.guest))
        {
            eprintln!("vshmem-lab: {}: no death notice: {error}", domain(self.guest));
        }
        self.set(GuestState::Dead, how);
    }
}

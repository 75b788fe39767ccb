//! The agent's datagrams: notifying the agents of other domains, and being notified by them, where an operator has configured
//! it (docs/notify.md).
//!
//! Two threads, so that neither polls: one waits at the socket and wakes sleepers, one waits until programs ask for others to be
//! notified. The round once a second greets the peers now and then, and says in the pool which of them have been heard.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vshmem_ipc::{Asked, Domains, Errno, Member};
use vshmem_session::{NotifyConfig, NotifyError, NotifyStatus, Peers, Received, Sent, Session};

/// Between two greetings.
const GREETING: Duration = Duration::from_secs(5);
/// How long a peer may be silent: three greetings may be lost.
const SILENCE: Duration = Duration::from_secs(16);
/// After more datagrams than the limit allows: as long as sleepers without a doorbell wait at most.
const FLOOD: Duration = Duration::from_millis(4);
/// Datagrams that are read after that; the kernel keeps fewer.
const MOST_WAITING: u32 = 256;
/// The sending thread sleeps for so long when nobody asks.
const UNASKED: Duration = Duration::from_secs(3600);

/// The datagrams of one agent.
#[derive(Debug)]
pub struct Notifier<'a> {
    member: &'a Member,
    peers: Peers,
    is_over: AtomicBool,
    told: Mutex<Told>,
}

#[derive(Debug)]
struct Told {
    status: NotifyStatus,
    greeted: Option<Instant>,
}

impl<'a> Notifier<'a> {
    /// As the operator has configured it for the pool; `None` when not, or when that cannot be: then sleepers look for themselves.
    pub fn start(session: &'a Session) -> Option<Self> {
        let member = session.member();
        let opened = NotifyConfig::of(session.link().place())
            .and_then(|config| config.map(|config| Peers::open(&config)).transpose());
        let peers = match opened {
            Ok(Some(peers)) => peers,
            without => {
                // An agent before may have been killed, and had a configuration.
                withdraw(member);
                if let Err(error) = without {
                    Self::complain(member, &error);
                }
                return None;
            }
        };
        let uuid = member.pool().superblock().uuid;
        let told = Mutex::new(Told { status: NotifyStatus::new(&uuid), greeted: None });
        let notifier = Self { member, peers, is_over: AtomicBool::new(false), told };
        // Before anybody is greeted: who answers finds this domain in the pool.
        member.publish_listening(Some(notifier.peers.own_digest())).ok()?;
        Some(notifier)
    }

    /// The file goes at once: `vshmem doctor` reads the configuration itself, and says what is wrong with it.
    fn complain(member: &Member, error: &NotifyError) {
        let uuid = member.pool().superblock().uuid;
        let mut status = NotifyStatus::new(&uuid);
        status.tell(&format!("off: {error}"), None);
        status.leave();
    }

    /// Once a second: greets, and says who has been heard.
    pub fn round(&self) -> Result<(), Errno> {
        let mut told = self.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if told.greeted.is_none_or(|since| since.elapsed() >= GREETING) {
            self.peers.greet(None);
            told.greeted = Some(Instant::now());
        }
        self.publish_heard()?;
        told.status.tell("on", Some(self.peers.counts()));
        Ok(())
    }

    fn publish_heard(&self) -> Result<(), Errno> {
        let digests = self.peers.heard_within(SILENCE);
        let mut heard = Domains::default();
        for listener in self.member.listeners()? {
            if digests.contains(&listener.digest) {
                heard.add(listener.index);
            }
        }
        self.member.publish_heard(heard)?;
        Ok(())
    }

    /// Until [`Notifier::end`]: whenever a peer says so, wakes sleepers that have been served.
    pub fn listen(&self) {
        loop {
            match self.peers.receive() {
                Received::Peer { number, is_news } => self.look_again(number, is_news),
                Received::Foreign | Received::Nothing => {}
                Received::Flood => self.sit_out(),
                Received::Closed => return,
            }
        }
    }

    fn look_again(&self, number: usize, is_news: bool) {
        self.member.deliver_rings();
        if is_news {
            // A pool that does not make sense is found out by the round.
            let _ = self.publish_heard();
            self.peers.greet(Some(number));
        }
    }

    /// While too much comes, looks once every some milliseconds, as sleepers would do it without datagrams.
    fn sit_out(&self) {
        std::thread::sleep(FLOOD);
        for _ in 0..MOST_WAITING {
            match self.peers.receive_waiting() {
                Received::Nothing | Received::Closed => break,
                _ => {}
            }
        }
        self.member.deliver_rings();
    }

    /// Until [`Notifier::end`]: notifies whom programs ask for.
    pub fn send(&self) {
        let mut due = Asked::default();
        loop {
            let Ok(asked) = self.member.await_asked(UNASKED) else { return };
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            due = due.and(asked);
            while let Some(wait) = self.notify(&mut due) {
                std::thread::sleep(wait);
            }
        }
    }

    /// Sends to those who are due and rely on it. Returns how long to wait for those that the rate puts off; they stay due.
    fn notify(&self, due: &mut Asked) -> Option<Duration> {
        let (mut left, mut wait) = (Asked::default(), None);
        for listener in self.member.listeners().unwrap_or_default() {
            if !listener.relies_on_us || !due.has(listener.index) {
                continue;
            }
            if let Sent::Later(later) = self.peers.send(listener.digest) {
                left.add(listener.index);
                wait = wait.max(Some(later));
            }
        }
        *due = left;
        wait
    }

    /// Ends both threads. Others no longer notify this domain; its sleepers look for themselves.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.peers.close();
        self.member.ring_agent();
    }

    /// Takes back what stands in the pool, for an agent that takes leave.
    pub fn withdraw(&self) {
        withdraw(self.member);
    }
}

fn withdraw(member: &Member) {
    // What cannot be written there makes no sense, which the round finds out.
    let _ = member.publish_listening(None);
    let _ = member.publish_heard(Domains::default());
}

//! The agent's datagrams: notifying the agents of other domains, and being notified by them, where
//! an operator has configured it (docs/internals/notify.md).
//!
//! Two threads, so that neither polls: one waits at the socket and wakes waiters, one waits until
//! programs ask for others to be notified. The round once a second greets the peers now and then,
//! and says in the pool which of them have been heard.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vshmem_ipc::{Client, DomainSet, Errno, NotifySet};
use vshmem_session::Session;

use super::config::{NotifyConfig, NotifyError};
use super::peers::{Peers, Received, Sent};
use super::status::NotifyStatus;

/// Between two greetings.
const GREETING: Duration = Duration::from_secs(5);
/// How long a peer may be silent: three greetings may be lost.
const SILENCE: Duration = Duration::from_secs(16);
/// After more datagrams than the limit allows: as long as waiters without a doorbell wait at most.
const FLOOD: Duration = Duration::from_millis(4);
/// Datagrams that are read after that; the kernel keeps fewer.
const MOST_WAITING: u32 = 256;
/// A domain is notified again after this time, and then after twice as long each time, while it has
/// not noticed...
const REPEAT: Duration = Duration::from_millis(2);
/// ...up to this.
const LAST_REPEAT: Duration = Duration::from_millis(600);
/// While programs ask all the time, this is looked at once in so many times.
const LOOK_EVERY: u32 = 16;
/// The sending thread sleeps for so long when no program asks.
const UNASKED: Duration = Duration::from_secs(3600);

/// Domains that were notified, of which some thread has perhaps not noticed that it was served: a
/// datagram may be lost, or lie in a network that has missed an interrupt. The pool says whether it
/// is so, and the next datagram repairs either.
#[derive(Debug)]
struct Unacknowledged {
    sent: NotifySet,
    timeout: Duration,
    /// How often a program asked since the last look.
    asked: u32,
}

impl Default for Unacknowledged {
    fn default() -> Self {
        Self { sent: NotifySet::default(), timeout: REPEAT, asked: 0 }
    }
}

impl Unacknowledged {
    /// How long to wait for a program that asks.
    fn timeout(&self) -> Duration {
        if self.sent.is_empty() { UNASKED } else { self.timeout }
    }

    /// Who is to be notified now, when `asked` has been asked for: none, after
    /// [`Unacknowledged::timeout`].
    fn next(
        &mut self,
        asked: NotifySet,
        not_noticed: impl FnOnce(NotifySet) -> NotifySet,
    ) -> NotifySet {
        if asked.is_empty() {
            self.sent = not_noticed(self.sent);
            self.timeout *= 2;
            if self.timeout > LAST_REPEAT {
                // Its agent looks for it once a second, if there is one.
                *self = Self::default();
            }
            return self.sent;
        }
        self.asked += 1;
        let mut due = asked;
        if self.asked.is_multiple_of(LOOK_EVERY) {
            // Others ask all the time.
            due = due.and(not_noticed(self.sent));
            self.sent = NotifySet::default();
        }
        self.sent = self.sent.and(due);
        self.timeout = REPEAT;
        due
    }
}

/// The datagrams of one agent.
#[derive(Debug)]
pub struct Notifier<'a> {
    this_client: &'a Client,
    peers: Peers,
    is_over: AtomicBool,
    published: Mutex<Published>,
}

#[derive(Debug)]
struct Published {
    status: NotifyStatus,
    greeted: Option<Instant>,
}

impl<'a> Notifier<'a> {
    /// As the operator has configured it for the pool; `None` when not, or when that cannot be:
    /// then waiters look for themselves.
    pub fn start(session: &'a Session) -> Option<Self> {
        let this_client = session.client();
        let opened = NotifyConfig::of(session.link().path())
            .and_then(|config| config.map(|config| Peers::open(&config)).transpose());
        let peers = match opened {
            Ok(Some(peers)) => peers,
            without => {
                // An agent before may have been killed, and had a configuration.
                withdraw(this_client);
                if let Err(error) = without {
                    Self::complain(this_client, &error);
                }
                return None;
            }
        };
        let uuid = this_client.pool().superblock().uuid;
        let published = Mutex::new(Published { status: NotifyStatus::new(&uuid), greeted: None });
        let notifier = Self { this_client, peers, is_over: AtomicBool::new(false), published };
        // Before any peer is greeted: one that answers finds this domain in the pool.
        this_client.publish_listening(Some(notifier.peers.own_digest())).ok()?;
        Some(notifier)
    }

    /// The file goes at once: `vshmem doctor` reads the configuration itself, and says what is
    /// wrong with it.
    fn complain(this_client: &Client, error: &NotifyError) {
        let uuid = this_client.pool().superblock().uuid;
        let mut status = NotifyStatus::new(&uuid);
        status.tell(&format!("off: {error}"), None);
        status.leave();
    }

    /// Once a second: greets, and says who has been heard.
    pub fn round(&self) -> Result<(), Errno> {
        let mut published =
            self.published.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if published.greeted.is_none_or(|since| since.elapsed() >= GREETING) {
            self.peers.greet(None);
            published.greeted = Some(Instant::now());
        }
        self.publish_heard()?;
        published.status.tell("on", Some(self.peers.counts()));
        Ok(())
    }

    fn publish_heard(&self) -> Result<(), Errno> {
        let digests = self.peers.heard_within(SILENCE);
        let mut heard = DomainSet::default();
        for listener in self.this_client.listeners()? {
            if digests.contains(&listener.digest) {
                heard.add(listener.index);
            }
        }
        self.this_client.publish_heard(heard)?;
        Ok(())
    }

    /// Until [`Notifier::end`]: whenever a peer says so, wakes waiters that have been served.
    pub fn listen(&self) {
        loop {
            match self.peers.receive() {
                Received::Peer { number, is_news } => self.deliver(number, is_news),
                Received::Foreign | Received::Nothing => {}
                Received::Flood => self.back_off(),
                Received::Closed => return,
            }
        }
    }

    fn deliver(&self, number: usize, is_news: bool) {
        self.this_client.deliver_wakeups();
        if is_news {
            // A pool that is invalid is found out by the round.
            let _ = self.publish_heard();
            self.peers.greet(Some(number));
        }
    }

    /// While too much comes, looks once every some milliseconds, as waiters would do it without
    /// datagrams.
    fn back_off(&self) {
        std::thread::sleep(FLOOD);
        for _ in 0..MOST_WAITING {
            match self.peers.receive_waiting() {
                Received::Nothing | Received::Closed => break,
                _ => {}
            }
        }
        self.this_client.deliver_wakeups();
    }

    /// Until [`Notifier::end`]: notifies the domains that programs ask for, and again those that
    /// have not noticed.
    pub fn send(&self) {
        let mut unacknowledged = Unacknowledged::default();
        loop {
            let Ok(asked) = self.this_client.await_asked(unacknowledged.timeout()) else { return };
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let mut due = unacknowledged
                .next(asked, |sent| self.this_client.not_noticed(sent).unwrap_or_default());
            while let Some(wait) = self.notify(&mut due) {
                std::thread::sleep(wait);
            }
        }
    }

    /// Sends to those who are due and rely on it. Returns how long to wait for those that the rate
    /// puts off; they stay due.
    fn notify(&self, due: &mut NotifySet) -> Option<Duration> {
        let (mut left, mut wait) = (NotifySet::default(), None);
        for listener in self.this_client.listeners().unwrap_or_default() {
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

    /// Ends both threads. Others no longer notify this domain; its waiters look for themselves.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.peers.close();
        self.this_client.wake_agent();
    }

    /// Takes back what stands in the pool, for an agent that takes leave.
    pub fn withdraw(&self) {
        withdraw(self.this_client);
    }
}

fn withdraw(this_client: &Client) {
    // What cannot be written there is invalid, which the round finds out.
    let _ = this_client.publish_listening(None);
    let _ = this_client.publish_heard(DomainSet::default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(index: u32) -> NotifySet {
        let mut asked = NotifySet::default();
        asked.add(index);
        asked
    }

    #[test]
    fn who_has_not_noticed_is_notified_again_ever_more_seldom_and_not_for_ever() {
        let mut unacknowledged = Unacknowledged::default();
        assert_eq!(unacknowledged.timeout(), UNASKED);
        assert_eq!(unacknowledged.next(one(3), |_| unreachable!()), one(3));
        let (mut waited, mut last) = (Duration::ZERO, Duration::ZERO);
        while unacknowledged.timeout() != UNASKED {
            assert!(unacknowledged.timeout() > last);
            last = unacknowledged.timeout();
            waited += last;
            unacknowledged.next(NotifySet::default(), |sent| sent);
        }
        assert!(
            (Duration::from_millis(500)..Duration::from_secs(2)).contains(&waited),
            "{waited:?}"
        );
    }

    #[test]
    fn who_has_noticed_is_left_alone() {
        let mut unacknowledged = Unacknowledged::default();
        unacknowledged.next(one(3), |_| unreachable!());
        unacknowledged.next(one(4), |_| unreachable!());
        assert_eq!(
            unacknowledged.next(NotifySet::default(), |sent| {
                assert_eq!(sent, one(3).and(one(4)));
                one(4)
            }),
            one(4)
        );
        assert!(unacknowledged.next(NotifySet::default(), |_| NotifySet::default()).is_empty());
        assert_eq!(unacknowledged.timeout(), UNASKED);
    }

    #[test]
    fn others_who_ask_all_the_time_do_not_keep_one_from_being_notified_again() {
        let mut unacknowledged = Unacknowledged::default();
        unacknowledged.next(one(3), |_| unreachable!());
        let again = (1..LOOK_EVERY)
            .map(|_| unacknowledged.next(one(4), |sent| sent))
            .filter(|due| due.has(3));
        assert_eq!(again.count(), 1);
    }
}

//! The agent's datagrams: notifying the agents of other domains, and being notified by them, where
//! an operator has configured it (docs/internals/notify.md).
//!
//! Two threads, so that neither polls: one waits at the socket and wakes sleepers, one waits until
//! programs ask for others to be notified. The round once a second greets the peers now and then,
//! and says in the pool which of them have been heard.

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
/// A domain is notified again after this time, and then after twice as long each time, while it has
/// not noticed...
const REPEAT: Duration = Duration::from_millis(2);
/// ...up to this.
const LAST_REPEAT: Duration = Duration::from_millis(600);
/// While somebody asks all the time, this is looked at once in so many times.
const LOOK_EVERY: u32 = 16;
/// The sending thread sleeps for so long when nobody asks.
const UNASKED: Duration = Duration::from_secs(3600);

/// Domains that were notified, of which some thread has perhaps not noticed that it was served: a
/// datagram may be lost, or lie in a network that has missed an interrupt. The pool says whether it
/// is so, and the next datagram mends either.
#[derive(Debug)]
struct Unsettled {
    sent: Asked,
    patience: Duration,
    /// How often somebody asked since the last look.
    asked: u32,
}

impl Default for Unsettled {
    fn default() -> Self {
        Self { sent: Asked::default(), patience: REPEAT, asked: 0 }
    }
}

impl Unsettled {
    /// How long to wait for somebody who asks.
    fn patience(&self) -> Duration {
        if self.sent.is_empty() { UNASKED } else { self.patience }
    }

    /// Who is to be notified now, when `asked` has been asked for: nobody, after
    /// [`Unsettled::patience`].
    fn next(&mut self, asked: Asked, not_noticed: impl FnOnce(Asked) -> Asked) -> Asked {
        if asked.is_empty() {
            self.sent = not_noticed(self.sent);
            self.patience *= 2;
            if self.patience > LAST_REPEAT {
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
            self.sent = Asked::default();
        }
        self.sent = self.sent.and(due);
        self.patience = REPEAT;
        due
    }
}

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
    /// As the operator has configured it for the pool; `None` when not, or when that cannot be:
    /// then sleepers look for themselves.
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

    /// The file goes at once: `vshmem doctor` reads the configuration itself, and says what is
    /// wrong with it.
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

    /// While too much comes, looks once every some milliseconds, as sleepers would do it without
    /// datagrams.
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

    /// Until [`Notifier::end`]: notifies whom programs ask for, and again whoever has not noticed.
    pub fn send(&self) {
        let mut unsettled = Unsettled::default();
        loop {
            let Ok(asked) = self.member.await_asked(unsettled.patience()) else { return };
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let mut due =
                unsettled.next(asked, |sent| self.member.not_noticed(sent).unwrap_or_default());
            while let Some(wait) = self.notify(&mut due) {
                std::thread::sleep(wait);
            }
        }
    }

    /// Sends to those who are due and rely on it. Returns how long to wait for those that the rate
    /// puts off; they stay due.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn one(index: u32) -> Asked {
        let mut asked = Asked::default();
        asked.add(index);
        asked
    }

    #[test]
    fn who_has_not_noticed_is_notified_again_ever_more_seldom_and_not_for_ever() {
        let mut unsettled = Unsettled::default();
        assert_eq!(unsettled.patience(), UNASKED);
        assert_eq!(unsettled.next(one(3), |_| unreachable!()), one(3));
        let (mut waited, mut last) = (Duration::ZERO, Duration::ZERO);
        while unsettled.patience() != UNASKED {
            assert!(unsettled.patience() > last);
            last = unsettled.patience();
            waited += last;
            unsettled.next(Asked::default(), |sent| sent);
        }
        assert!(
            (Duration::from_millis(500)..Duration::from_secs(2)).contains(&waited),
            "{waited:?}"
        );
    }

    #[test]
    fn who_has_noticed_is_left_alone() {
        let mut unsettled = Unsettled::default();
        unsettled.next(one(3), |_| unreachable!());
        unsettled.next(one(4), |_| unreachable!());
        assert_eq!(
            unsettled.next(Asked::default(), |sent| {
                assert_eq!(sent, one(3).and(one(4)));
                one(4)
            }),
            one(4)
        );
        assert!(unsettled.next(Asked::default(), |_| Asked::default()).is_empty());
        assert_eq!(unsettled.patience(), UNASKED);
    }

    #[test]
    fn others_who_ask_all_the_time_do_not_keep_one_from_being_notified_again() {
        let mut unsettled = Unsettled::default();
        unsettled.next(one(3), |_| unreachable!());
        let again =
            (1..LOOK_EVERY).map(|_| unsettled.next(one(4), |sent| sent)).filter(|due| due.has(3));
        assert_eq!(again.count(), 1);
    }
}

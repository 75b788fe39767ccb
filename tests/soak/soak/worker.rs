//! A worker that makes its calls through the library itself, without C underneath.

use std::path::Path;
use std::time::Duration;

use vshmem_ipc::{Client, Errno, Superuser};
use vshmem_session::Session;

use crate::journal::{Journal, Word};
use crate::message::{self, Origin};
use crate::objects::{
    FIRST_KEY, KEYS, MOVED_SEMAPHORES, Objects, TOKEN_SEMAPHORES, receive, step, undone,
};
use crate::random::Random;

struct Worker {
    session: Session,
    on: Objects,
    journal: Journal,
    number: u32,
    random: Random,
}

/// `worker POOL-FILE JOURNALS FIRST NUMBER SEED IDS...`: works until it is killed.
pub fn be(words: &[String]) -> Result<(), String> {
    let [place, journals, first, number, seed, ids @ ..] = words else {
        return Err("a worker needs more words".to_owned());
    };
    let figure = |text: &String| text.parse().map_err(|_| format!("{text:?} is no number"));
    let link = vshmem_link::open(Path::new(place)).map_err(|error| error.to_string())?;
    let ids: Vec<i32> = ids.iter().filter_map(|id| id.parse().ok()).collect();
    let mut worker = Worker {
        session: Session::join(link).map_err(|error| error.to_string())?,
        on: Objects::of(&ids).ok_or("ids are missing")?,
        journal: Journal::open(Path::new(journals), figure(first)? as u32)
            .map_err(|error| error.to_string())?,
        number: figure(number)? as u32,
        random: Random::new(figure(seed)?),
    };
    loop {
        worker.round()?;
    }
}

/// Errors that a rival for the same key brings about.
fn gone(errno: &Errno) -> bool {
    matches!(*errno, Errno::IDRM | Errno::INVAL | Errno::NOENT | Errno::EXIST | Errno::NOSPC)
}

fn refused(what: &str) -> impl Fn(Errno) -> String + '_ {
    move |errno| format!("{what}: {errno}")
}

impl Worker {
    fn me(&self) -> &Client {
        self.session.client()
    }

    fn journalled(&self, word: Word) -> Result<u64, String> {
        self.journal.add(self.number, word).map_err(|error| format!("the journal: {error}"))
    }

    fn set(&self, word: Word, value: u64) -> Result<(), String> {
        self.journal.set(self.number, word, value).map_err(|error| format!("the journal: {error}"))
    }

    fn round(&mut self) -> Result<(), String> {
        self.journalled(Word::Operations)?;
        match self.random.roll(22) {
            0..=2 => self.hold(),
            3..=5 => self.shift(),
            6..=7 => self.single(),
            8..=10 => self.send(Word::SendingStrict, Word::SentStrict, self.on.strict),
            11..=14 => self.send(Word::SendingMixed, Word::SentMixed, self.on.mixed),
            15..=17 => self.receive(),
            18..=19 => self.segments(),
            20 => self.sets(),
            _ => self.queues(),
        }
    }

    fn hold(&mut self) -> Result<(), String> {
        let count = u64::from(TOKEN_SEMAPHORES);
        let a = self.random.roll(count) as u16;
        let b = (u64::from(a) + 1 + self.random.roll(count - 1)) % count;
        let take = [undone(a, -1), undone(b as u16, -1)];
        let give = [undone(a, 1), undone(b as u16, 1)];
        let number = 1 + self.random.roll(2) as usize;
        let timeout = self.random.even().then_some(Duration::from_millis(2));
        match self.me().semop(self.on.tokens, &take[..number], timeout, &Superuser) {
            Ok(()) => self
                .me()
                .semop(self.on.tokens, &give[..number], None, &Superuser)
                .map_err(refused("tokens given")),
            Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(refused("tokens taken")(errno)),
        }
    }

    fn shift(&mut self) -> Result<(), String> {
        let count = MOVED_SEMAPHORES;
        let from = self.random.roll(u64::from(count)) as u16;
        let to = 1 + self.random.roll(u64::from(count) - 1) as u16;
        let mut call = vec![step(from, -(to as i16))];
        call[0].no_wait = self.random.even();
        call.extend((1..=to).map(|n| step((from + n) % count, 1)));
        let timeout = Some(Duration::from_millis(1));
        match self.me().semop(self.on.moved, &call, timeout, &Superuser) {
            Ok(()) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(refused("an array")(errno)),
        }
    }

    fn single(&mut self) -> Result<(), String> {
        let before = self.journalled(Word::Lowering)? - 1;
        let mut down = step(0, -1);
        down.no_wait = true;
        match self.me().semop(self.on.fast, &[down], None, &Superuser) {
            Ok(()) => {}
            Err(Errno::AGAIN) => return self.set(Word::Lowering, before),
            Err(errno) => return Err(refused("a step down")(errno)),
        }
        self.journalled(Word::Lowered)?;
        self.journalled(Word::Raising)?;
        self.me()
            .semop(self.on.fast, &[step(0, 1)], None, &Superuser)
            .map_err(refused("a step up"))?;
        self.journalled(Word::Raised).map(|_| ())
    }

    fn length(&mut self) -> usize {
        let most = [8, 64, 1024, 8192][self.random.roll(4) as usize];
        self.random.roll(most + 1) as usize
    }

    fn send(&mut self, sending: Word, sent: Word, queue: i32) -> Result<(), String> {
        let length = self.length();
        let number = self.journal.get(self.number, sending).map_err(|error| error.to_string())? + 1;
        let origin = Origin { sender: self.number, number: number as u32 };
        let (kind, text) = message::make(origin, length);
        self.set(sending, number)?;
        let no_wait = self.random.roll(4) != 0;
        match self.me().msgsnd(queue, kind, &text, no_wait, &Superuser) {
            Ok(()) => self.set(sent, number),
            Err(Errno::AGAIN) => self.set(sending, number - 1),
            Err(errno) => Err(refused("msgsnd")(errno)),
        }
    }

    fn receive(&mut self) -> Result<(), String> {
        let before = self.journalled(Word::Receiving)? - 1;
        let kind = [0, 0, 2, -3][self.random.roll(4) as usize];
        let no_wait = self.random.roll(64) != 0;
        match receive(self.me(), self.on.mixed, kind, no_wait) {
            Ok((kind, text)) => {
                let from = message::read(kind, &text)?;
                self.journal
                    .note_received(from.sender, from.number, self.number)
                    .map_err(|error| format!("the log: {error}"))?;
                self.journalled(Word::Received).map(|_| ())
            }
            Err(Errno::NOMSG) => self.set(Word::Receiving, before),
            Err(errno) => Err(refused("msgrcv")(errno)),
        }
    }

    fn key(&mut self) -> i32 {
        FIRST_KEY + self.random.roll(KEYS as u64) as i32
    }

    fn segments(&mut self) -> Result<(), String> {
        let key = if self.random.even() { self.key() } else { 0 };
        let size = 8192 * (1 + if key == 0 { self.random.roll(4) } else { 0 });
        let me = self.me();
        let id = match me.shmget(key, size, 0o1600, &Superuser, &self.session) {
            Ok(id) => id,
            Err(errno) if gone(&errno) => return Ok(()),
            Err(errno) => return Err(refused("shmget")(errno)),
        };
        match me.shmat(id, true, false, &Superuser) {
            Ok(_) => {}
            Err(errno) if gone(&errno) => return Ok(()),
            Err(errno) => return Err(refused("shmat")(errno)),
        }
        if key == 0 || self.random.roll(4) == 0 {
            match self.me().segment_remove(id, &Superuser) {
                Err(errno) if !gone(&errno) => return Err(refused("IPC_RMID")(errno)),
                _ => {}
            }
        }
        self.me().shmdt(id).map_err(refused("shmdt"))
    }

    fn sets(&mut self) -> Result<(), String> {
        let key = if self.random.even() { self.key() } else { 0 };
        let me = self.me();
        let made = me.semget(key, 3, 0o1600, &Superuser).and_then(|id| {
            me.semop(id, &[undone(0, 1), step(2, 3)], None, &Superuser)?;
            me.set_remove(id, &Superuser)
        });
        match made {
            Err(errno) if !gone(&errno) => Err(refused("a set of its own")(errno)),
            _ => Ok(()),
        }
    }

    fn queues(&mut self) -> Result<(), String> {
        let key = if self.random.even() { self.key() } else { 0 };
        let text = vec![7; self.random.roll(600) as usize];
        let me = self.me();
        let made = me.msgget(key, 0o1600, &Superuser).and_then(|id| {
            match me.msgsnd(id, 1, &text, true, &Superuser) {
                Err(Errno::AGAIN) => Ok(()),
                other => other,
            }?;
            me.queue_remove(id, &Superuser)
        });
        match made {
            Err(errno) if !gone(&errno) => Err(refused("a queue of its own")(errno)),
            _ => Ok(()),
        }
    }
}

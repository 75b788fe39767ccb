//! What workers are about to do and have done, in files outside the pool that outlive them.
//!
//! Kept in the same way by programs/storm.c: a page of words per worker, a log of the messages
//! received, and a list of doubts: calls that had begun and not returned when their worker died.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAGE: u64 = 4096;
const ROW: usize = 12;

/// A word of a worker's page; the order is that of `struct page` in programs/storm.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Operations,
    SendingStrict,
    SendingMixed,
    SentStrict,
    SentMixed,
    Receiving,
    Received,
    Lowering,
    Lowered,
    Raising,
    Raised,
    Entering,
    Left,
}

/// What may be in doubt, as the number that stands for it, and the words that tell.
const DOUBTS: [(Word, Word); 6] = [
    (Word::SendingStrict, Word::SentStrict),
    (Word::SendingMixed, Word::SentMixed),
    (Word::Receiving, Word::Received),
    (Word::Lowering, Word::Lowered),
    (Word::Raising, Word::Raised),
    (Word::Entering, Word::Left),
];

/// The journal of a group of workers with numbers from `first` on.
#[derive(Debug)]
pub struct Journal {
    first: u32,
    pages: File,
    log: File,
    doubts: File,
}

impl Journal {
    pub fn open(directory: &Path, first: u32) -> io::Result<Self> {
        let open = |name: &str, append: bool| {
            let path = directory.join(format!("{name}.{first}"));
            OpenOptions::new().read(true).write(!append).append(append).create(true).open(path)
        };
        Ok(Self {
            first,
            pages: open("journal", false)?,
            log: open("log", true)?,
            doubts: open("doubts", true)?,
        })
    }

    pub fn get(&self, worker: u32, word: Word) -> io::Result<u64> {
        let mut bytes = [0; 8];
        // What has not been written yet is 0.
        let _ = self.pages.read_at(&mut bytes, self.place(worker, word))?;
        Ok(u64::from_ne_bytes(bytes))
    }

    pub fn set(&self, worker: u32, word: Word, value: u64) -> io::Result<()> {
        self.pages.write_all_at(&value.to_ne_bytes(), self.place(worker, word))
    }

    pub fn add(&self, worker: u32, word: Word) -> io::Result<u64> {
        let value = self.get(worker, word)? + 1;
        self.set(worker, word, value)?;
        Ok(value)
    }

    fn place(&self, worker: u32, word: Word) -> u64 {
        u64::from(worker - self.first) * PAGE + word as u64 * 8
    }

    /// Writes down that `worker` has received a message.
    pub fn note_received(&self, sender: u32, number: u32, worker: u32) -> io::Result<()> {
        (&self.log).write_all(&row([sender, number, worker]))
    }

    /// Writes down what is in doubt on the page of a worker that has died.
    pub fn write_doubts(&self, worker: u32) -> io::Result<()> {
        for (kind, (begun, done)) in DOUBTS.into_iter().enumerate() {
            let value = self.get(worker, begun)?;
            if value != self.get(worker, done)? {
                (&self.doubts).write_all(&row([kind as u32, worker, value as u32]))?;
                self.set(worker, done, value)?;
            }
        }
        Ok(())
    }
}

fn row(words: [u32; 3]) -> [u8; ROW] {
    let mut bytes = [0; ROW];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

fn rows(file: &File) -> io::Result<Vec<[u32; 3]>> {
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let word = |chunk: &[u8], at: usize| {
        u32::from_ne_bytes(std::array::from_fn(|byte| chunk[4 * at + byte]))
    };
    Ok(bytes.chunks_exact(ROW).map(|c| [word(c, 0), word(c, 1), word(c, 2)]).collect())
}

/// How many times each number of each sender was seen.
pub type Seen = HashMap<(u32, u32), u32>;

/// All journals of an epoch, added up.
#[derive(Debug, Default)]
pub struct Accounts {
    pub operations: u64,
    /// Highest number sent, per queue and sender.
    pub sent: [HashMap<u32, u32>; 2],
    /// Numbers that may have been sent or not.
    pub doubtful: [Seen; 2],
    /// Messages of the mixed queue that workers have received.
    pub received: Seen,
    /// Workers that died in msgrcv.
    pub died_receiving: u32,
    pub lowered: u64,
    pub raised: u64,
    pub died_lowering: u64,
    pub died_raising: u64,
    pub left: u64,
    pub died_inside: u64,
}

impl Accounts {
    /// Adds a journal of `workers` workers.
    pub fn add(&mut self, journal: &Journal, workers: u32) -> io::Result<()> {
        for worker in journal.first..journal.first + workers {
            let get = |word| journal.get(worker, word);
            self.operations += get(Word::Operations)?;
            for (queue, word) in [Word::SentStrict, Word::SentMixed].into_iter().enumerate() {
                self.sent[queue].insert(worker, get(word)? as u32);
            }
            self.lowered += get(Word::Lowered)?;
            self.raised += get(Word::Raised)?;
            self.left += get(Word::Left)?;
        }
        for [sender, number, _] in rows(&journal.log)? {
            *self.received.entry((sender, number)).or_default() += 1;
        }
        for [kind, worker, value] in rows(&journal.doubts)? {
            match kind {
                0 | 1 => *self.doubtful[kind as usize].entry((worker, value)).or_default() += 1,
                2 => self.died_receiving += 1,
                3 => self.died_lowering += 1,
                4 => self.died_raising += 1,
                _ => self.died_inside += 1,
            }
        }
        Ok(())
    }
}

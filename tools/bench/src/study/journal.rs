//! What was measured, as it was measured: one line of JSON after the other, each on the disk before
//! the next run begins.
//!
//! | kind | what |
//! |---|---|
//! | `study` | first line: the seed, the repetitions and every case |
//! | `session` | each time the study is begun or resumed: the facts of the machine |
//! | `warm-up` | a run that does not count |
//! | `sample` | a run that does |
//! | `failure` | a run that failed, and why |
//!
//! A line that was torn when the machine or the process died is dropped when the file is opened
//! again; its run is done once more.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::case::Case;
use super::facts::{Facts, Load};
use super::placement::Pages;
use crate::error::{Error, Result};

/// The journal's name in its directory.
pub const JOURNAL: &str = "journal.jsonl";
/// What the layout of the lines is called.
const VERSION: u32 = 1;

/// What is to be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Layout of the lines.
    pub version: u32,
    /// `quick`, `default` or `paper`.
    pub extent: String,
    /// Of the order of runs, and of the intervals.
    pub seed: u64,
    /// Runs of each case that count.
    pub repetitions: u32,
    /// Seconds of measuring after which no further repetition is begun.
    pub seconds: Option<f64>,
    /// Everything that is measured.
    pub cases: Vec<Case>,
}

impl Study {
    /// Of these cases.
    #[must_use]
    pub fn new(
        extent: &str,
        seed: u64,
        repetitions: u32,
        seconds: Option<f64>,
        cases: Vec<Case>,
    ) -> Self {
        Self { version: VERSION, extent: extent.into(), seed, repetitions, seconds, cases }
    }
}

/// A time at which the study was begun or resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The machine.
    pub facts: Facts,
    /// The process, and when it began by the kernel's clock: whether it still lives.
    pub process: (u32, u64),
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the case.
    pub case: String,
    /// From 1; 0 in a run that does not count.
    pub repetition: u32,
    /// The first figure of the case.
    pub value: f64,
    /// What the machine was like meanwhile.
    pub around: Load,
    /// Who emulated the place, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<String>,
    /// Where the pages lay that it used, as far as a plan was followed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<Pages>,
    /// The program's own line.
    pub output: Value,
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedRun {
    /// Name of the case.
    pub case: String,
    /// From 1; 0 in the warm-up.
    pub repetition: u32,
    /// What went wrong: the same for all cases that fail for the same reason.
    pub why: String,
    /// The whole sentence.
    pub sentence: String,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Entry {
    /// The first line.
    Study(Study),
    /// The study was begun or resumed.
    Session(Session),
    /// A run that does not count.
    WarmUp(Sample),
    /// A run that does.
    Sample(Sample),
    /// A run that failed.
    Failure(FailedRun),
}

/// What a journal holds.
#[derive(Debug, Clone)]
pub struct Contents {
    /// What is to be measured.
    pub study: Study,
    /// The times at which it was begun or resumed.
    pub sessions: Vec<Session>,
    /// The runs that do not count.
    pub warm_ups: Vec<Sample>,
    /// The runs that do.
    pub samples: Vec<Sample>,
    /// The runs that failed.
    pub failed_runs: Vec<FailedRun>,
}

/// A journal that is being written. One process at a time: it is locked.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

/// How long a lock may outlive the run that had it: a run that is killed may just have forked a
/// program, which closes the journal when it executes.
const LOCK_OF_THE_DEAD: Duration = Duration::from_secs(2);

/// Locks the journal for this run.
fn lock(file: &File) -> std::result::Result<(), TryLockError> {
    let end = Instant::now() + LOCK_OF_THE_DEAD;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            locked => return locked,
        }
    }
}

impl Journal {
    /// Makes the directory and the journal in it, or opens the one that is there. The study is that
    /// of the journal if it has one, else the one given.
    ///
    /// # Errors
    /// When the directory cannot be made or the journal not be read or written; when another
    /// process is writing it; when a line in its middle is invalid.
    pub fn open(directory: &Path, study: impl FnOnce() -> Study) -> Result<(Self, Contents)> {
        std::fs::create_dir_all(directory)
            .map_err(Error::io(format!("make the directory {}", directory.display())))?;
        let path = directory.join(JOURNAL);
        let failed = |what: &str| Error::io(format!("{what} {}", path.display()));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed("open"))?;
        lock(&file).map_err(|error| {
            let why = format!("{error}; is another `vshmem bench run` at work there?");
            Error::Journal { path: path.clone(), why }
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed("read"))?;
        let whole = whole_lines(&bytes);
        let mut contents = parse(&path, &bytes[..whole])?;
        file.set_len(whole as u64).map_err(failed("cut a torn line off"))?;
        file.seek(SeekFrom::End(0)).map_err(failed("seek in"))?;
        let mut journal = Self { file, path };
        if contents.is_none() {
            let study = study();
            journal.write(&Entry::Study(study.clone()))?;
            contents = Some(Contents::of(study));
        }
        // Just written, if it was not there.
        contents.map(|contents| (journal, contents)).ok_or(Error::Stopped)
    }

    /// Appends a line. When this returns it is on the disk.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, entry: &Entry) -> Result<()> {
        let failed = || Error::io(format!("write {}", self.path.display()));
        let mut line = serde_json::to_vec(entry).map_err(|error| failed()(error.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(failed())?;
        self.file.sync_data().map_err(failed())
    }
}

impl Contents {
    /// Of a study of which nothing was measured yet.
    #[must_use]
    pub fn of(study: Study) -> Self {
        Self {
            study,
            sessions: Vec::new(),
            warm_ups: Vec::new(),
            samples: Vec::new(),
            failed_runs: Vec::new(),
        }
    }

    /// Reads the journal of a directory, without a claim on it.
    ///
    /// # Errors
    /// When it is not there or is invalid.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(JOURNAL);
        let bytes = std::fs::read(&path).map_err(|error| Error::Journal {
            why: format!(
                "cannot be read: {error}. `vshmem bench run --quick {}` makes one",
                vshmem_session::quoted(&directory.to_string_lossy())
            ),
            path: path.clone(),
        })?;
        parse(&path, &bytes[..whole_lines(&bytes)])?.ok_or_else(|| Error::Journal {
            path,
            why: "it has no line; `vshmem bench run` begins it".into(),
        })
    }

    /// In what that machine differs from the one that the study was begun on; none if in nothing
    /// that figures depend on.
    #[must_use]
    pub fn other_machine(&self, here: &Facts) -> Option<String> {
        let there = &self.sessions.first()?.facts;
        let differs = |name: &str, there: &str, here: &str| {
            (there != here).then(|| format!("{name}: {there} there, {here} here"))
        };
        let found = [
            differs("CPU", &there.cpu, &here.cpu),
            differs("CPUs", &there.cpus.to_string(), &here.cpus.to_string()),
            differs("kernel", &there.kernel, &here.kernel),
        ];
        let found: Vec<String> = found.into_iter().flatten().collect();
        (!found.is_empty()).then(|| found.join("; "))
    }

    /// Files an entry.
    pub fn add(&mut self, entry: Entry) {
        match entry {
            Entry::Study(study) => self.study = study,
            Entry::Session(session) => self.sessions.push(session),
            Entry::WarmUp(sample) => self.warm_ups.push(sample),
            Entry::Sample(sample) => self.samples.push(sample),
            Entry::Failure(failed_run) => self.failed_runs.push(failed_run),
        }
    }
}

/// Length of what is before the last line's end.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Option<Contents>> {
    let wrong = |nth: usize, why: String| Error::Journal {
        path: path.to_owned(),
        why: format!("line {}: {why}", nth + 1),
    };
    let mut contents: Option<Contents> = None;
    for (nth, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let entry: Entry =
            serde_json::from_slice(line).map_err(|error| wrong(nth, error.to_string()))?;
        match (&mut contents, entry) {
            (None, Entry::Study(study)) if study.version == VERSION => {
                contents = Some(Contents::of(study));
            }
            (None, Entry::Study(study)) => {
                let why = format!("layout {}, and this is {VERSION}", study.version);
                return Err(wrong(nth, why));
            }
            (Some(contents), entry) => contents.add(entry),
            (None, _) => return Err(wrong(nth, "the study has to be the first line".into())),
        }
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study() -> Study {
        Study::new("quick", 7, 3, None, vec![Case::named("one"), Case::named("other")])
    }

    #[test]
    fn a_study_stays_on_the_machine_where_it_was_begun() {
        let mut contents = Contents::of(study());
        let here = Facts::here();
        assert_eq!(contents.other_machine(&here), None, "nothing was begun yet");
        contents.add(Entry::Session(Session { facts: here.clone(), process: (1, 1) }));
        assert_eq!(contents.other_machine(&Facts { load: "9".into(), ..here.clone() }), None);
        let other = Facts { cpus: here.cpus + 1, ..here };
        assert!(contents.other_machine(&other).unwrap().contains("CPUs"));
    }

    fn sample(case: &str, repetition: u32) -> Entry {
        Entry::Sample(Sample {
            case: case.into(),
            repetition,
            value: 0.5,
            around: Load::default(),
            emulated: None,
            pages: Vec::new(),
            output: serde_json::json!({"seconds": 0.5}),
        })
    }

    #[test]
    fn what_was_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, contents) = Journal::open(directory.path(), study).unwrap();
        assert_eq!(contents.study, study());
        journal.write(&sample("one", 1)).unwrap();
        drop(journal);
        let other = || Study::new("paper", 8, 30, None, Vec::new());
        let (_journal, contents) = Journal::open(directory.path(), other).unwrap();
        assert_eq!(contents.study, study(), "a study that was begun keeps its plan");
        assert_eq!(contents.samples.len(), 1);
    }

    #[test]
    fn one_writer_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let _journal = Journal::open(directory.path(), study).unwrap();
        let error = Journal::open(directory.path(), study).unwrap_err().to_string();
        assert!(error.contains("another"), "{error}");
        assert!(Contents::read(directory.path()).is_ok(), "readers are welcome");
    }

    #[test]
    fn nonsense_is_named_by_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(JOURNAL);
        let first = serde_json::to_string(&Entry::Study(study())).unwrap();
        for (text, says) in [
            (format!("{first}\nnonsense\n"), "line 2"),
            (format!("{}\n", serde_json::to_string(&sample("one", 1)).unwrap()), "first line"),
            (first.replace("\"version\":1", "\"version\":9") + "\n", "layout 9"),
            (String::new(), "no line"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Contents::read(directory.path()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    /// Whatever byte the machine died at: whole lines stay, the torn one goes, and what follows is
    /// whole again.
    #[test]
    fn a_torn_line_is_dropped_wherever_it_is_torn() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(directory.path(), study).unwrap();
        journal.write(&sample("one", 1)).unwrap();
        journal.write(&sample("other", 1)).unwrap();
        drop(journal);
        let path = directory.path().join(JOURNAL);
        let whole = std::fs::read(&path).unwrap();
        let ends: Vec<usize> = (1..=whole.len()).filter(|&end| whole[end - 1] == b'\n').collect();
        for length in 0..=whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let (mut journal, contents) = Journal::open(directory.path(), study).unwrap();
            let lines = ends.iter().filter(|&&end| end <= length).count();
            assert_eq!(contents.samples.len(), lines.saturating_sub(1), "cut at {length}");
            journal.write(&sample("one", 2)).unwrap();
            drop(journal);
            let contents = Contents::read(directory.path()).unwrap();
            assert_eq!(contents.samples.len(), lines.saturating_sub(1) + 1, "cut at {length}");
        }
    }
}

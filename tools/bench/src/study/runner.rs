//! Running a study: run by run, each written to the journal before the next.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::case::Case;
use super::expectation::Expectation;
use super::facts::LoadMonitor;
use super::journal::{Contents, Entry, FailedRun, Journal, Sample, Session, Study};
use super::placement::Pages;
use super::schedule::{Turn, turns};
use crate::Watch;
use crate::error::{Error, Result};

/// What a run gives.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The program's own line.
    pub line: Value,
    /// Who emulated the place, if it was.
    pub emulated: Option<String>,
    /// Where the pages lay that it used, as far as a plan was followed.
    pub pages: Vec<Pages>,
}

/// Who can run cases.
pub trait RunCase {
    /// Runs one to its end.
    ///
    /// # Errors
    /// When it cannot be run here, or fails.
    fn run(&mut self, case: &Case) -> Result<Outcome>;
}

/// Repetitions below which time does not end a study.
const FEWEST: u32 = 3;

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With everything measured that can be.
    Done,
    /// With the session's time: what is left is measured by the next one.
    OutOfTime,
}

/// Goes on with a study where its journal ends, until everything is measured, the study's time or
/// this session's is used up, or the user breaks it off. Cases that fail in their warm-up, or twice
/// on end, are left out of this session.
///
/// # Errors
/// [`Error::Stopped`] when the user broke it off: the journal then has everything that was
/// measured. Otherwise when the journal cannot be written.
pub fn resume(
    journal: &mut Journal,
    contents: &mut Contents,
    session: Session,
    environments: &mut dyn RunCase,
    watch: &dyn Watch,
) -> Result<Ended> {
    resume_for(journal, contents, session, environments, watch, None)
}

/// As [`resume`], for so long at most.
///
/// # Errors
/// See [`resume`].
pub fn resume_for(
    journal: &mut Journal,
    contents: &mut Contents,
    session: Session,
    environments: &mut dyn RunCase,
    watch: &dyn Watch,
    time: Option<Duration>,
) -> Result<Ended> {
    let deadline = time.and_then(|time| Instant::now().checked_add(time));
    let expectation = Expectation::of(contents, None);
    let mut runner = StudyRunner { journal, contents, environments, watch, deadline, expectation };
    runner.put_down(Entry::Session(session))?;
    runner.go()
}

struct StudyRunner<'a> {
    journal: &'a mut Journal,
    contents: &'a mut Contents,
    environments: &'a mut dyn RunCase,
    watch: &'a dyn Watch,
    /// When this session ends.
    deadline: Option<Instant>,
    expectation: Expectation,
}

impl StudyRunner<'_> {
    fn go(&mut self) -> Result<Ended> {
        let study = self.contents.study.clone();
        let done: HashSet<(&str, u32)> = self
            .contents
            .samples
            .iter()
            .map(|sample| (sample.case.as_str(), sample.repetition))
            .collect();
        let left: Vec<_> = turns(study.cases.len(), study.repetitions, study.seed)
            .into_iter()
            .filter(|turn| !done.contains(&(study.cases[turn.case].name.as_str(), turn.repetition)))
            .collect();
        let mut to_warm: BTreeSet<usize> = left.iter().map(|turn| turn.case).collect();
        if study.seconds.is_some() {
            // Little time: one for each program and place. What is in the caches then is theirs.
            let mut seen = HashSet::new();
            to_warm.retain(|&index| {
                let case = &study.cases[index];
                seen.insert((case.environment, case.model, case.group))
            });
        }
        let spent = self.contents.samples.iter().map(|sample| sample.around.seconds).sum();
        let mut progress = Progress::of(&study, spent);
        to_warm.iter().for_each(|&index| progress.runs[index] += 1);
        left.iter().for_each(|turn| progress.runs[turn.case] += 1);
        progress.total = progress.to_go();
        let mut out_of_order: HashSet<usize> = HashSet::new();
        for index in to_warm {
            if self.has_no_time_for(&study.cases[index]) {
                return Ok(Ended::OutOfTime);
            }
            if !self.turn(&study.cases[index], 0, &mut progress)? {
                out_of_order.insert(index);
                progress.leave_out(index);
            }
        }
        self.repeat(&study, &left, out_of_order, progress, spent)
    }

    /// The runs that count, in their order.
    fn repeat(
        &mut self,
        study: &Study,
        left: &[Turn],
        mut out_of_order: HashSet<usize>,
        mut progress: Progress<'_>,
        mut spent: f64,
    ) -> Result<Ended> {
        let mut failed_before: HashSet<usize> = HashSet::new();
        let mut repetition = 0;
        for turn in left.iter().copied() {
            if out_of_order.contains(&turn.case) {
                continue;
            }
            let case = &study.cases[turn.case];
            let begins = turn.repetition > repetition;
            repetition = turn.repetition;
            // As long as those before it.
            let then = spent * f64::from(repetition) / f64::from(repetition.max(2) - 1);
            if begins && repetition > FEWEST && study.seconds.is_some_and(|most| then > most) {
                break;
            }
            if self.has_no_time_for(case) {
                return Ok(Ended::OutOfTime);
            }
            let began = Instant::now();
            if self.turn(case, turn.repetition, &mut progress)? {
                failed_before.remove(&turn.case);
            } else if !failed_before.insert(turn.case) {
                out_of_order.insert(turn.case);
                progress.leave_out(turn.case);
            }
            spent += began.elapsed().as_secs_f64();
        }
        self.watch.advance(progress.done, progress.done, None, "done");
        Ok(Ended::Done)
    }

    /// Whether this session ends before a run of that case would.
    fn has_no_time_for(&self, case: &Case) -> bool {
        let seconds = Duration::from_secs_f64(self.expectation.seconds(&case.name));
        self.deadline.is_some_and(|deadline| Instant::now() + seconds > deadline)
    }

    /// Runs a case once; whether it could be run.
    fn turn(&mut self, case: &Case, repetition: u32, progress: &mut Progress<'_>) -> Result<bool> {
        if self.watch.stopped() {
            return Err(Error::Stopped);
        }
        let left = progress.left(&self.expectation, self.deadline);
        self.watch.advance(progress.done, progress.total, left, &case.name);
        let load_monitor = LoadMonitor::begin();
        let outcome = self.environments.run(case);
        let around = load_monitor.end();
        if self.watch.stopped() {
            // A signal reaches the programs as well: what they said is not to be trusted.
            return Err(Error::Stopped);
        }
        let (name, figure) = (case.name.clone(), case.figures.first());
        let value = outcome.and_then(|outcome| {
            let value = figure.and_then(|figure| figure.of(&outcome.line));
            let value = value.ok_or_else(|| Error::NoFigure {
                case: name.clone(),
                member: figure.map(|figure| figure.member.clone()).unwrap_or_default(),
                line: outcome.line.to_string(),
            })?;
            Ok((value, outcome))
        });
        let entry = match value {
            Ok((value, Outcome { line, emulated, pages })) => {
                let output = line;
                let sample =
                    Sample { case: name, repetition, value, around, emulated, pages, output };
                if repetition == 0 { Entry::WarmUp(sample) } else { Entry::Sample(sample) }
            }
            Err(Error::Stopped) => return Err(Error::Stopped),
            Err(error) => Entry::Failure(FailedRun {
                case: name,
                repetition,
                why: reason(&error),
                sentence: error.to_string(),
            }),
        };
        let ran = !matches!(entry, Entry::Failure(_));
        if ran {
            self.expectation.took(&case.name, around.seconds);
        }
        progress.step(case, around.seconds);
        self.put_down(entry)?;
        Ok(ran)
    }

    fn put_down(&mut self, entry: Entry) -> Result<()> {
        self.journal.write(&entry)?;
        self.contents.add(entry);
        Ok(())
    }
}

/// Without what differs from case to case.
fn reason(error: &Error) -> String {
    match error {
        Error::Program { output, status, .. } => {
            let mut said = output.lines().map(str::trim).filter(|line| !line.is_empty());
            said.next().map_or_else(|| format!("a program failed: {status}"), str::to_owned)
        }
        Error::NoFigure { member, .. } => format!("the program printed no number `{member}`"),
        other => other.to_string(),
    }
}

/// How far it is.
struct Progress<'a> {
    study: &'a Study,
    done: usize,
    total: usize,
    /// To come, in the order of the cases.
    runs: Vec<u32>,
    /// Seconds that may be used, less what was used.
    most: Option<f64>,
}

impl<'a> Progress<'a> {
    fn of(study: &'a Study, spent: f64) -> Self {
        let most = study.seconds.map(|most| (most - spent).max(0.0));
        Self { study, done: 0, total: 0, runs: vec![0; study.cases.len()], most }
    }

    fn to_go(&self) -> usize {
        self.runs.iter().map(|&runs| runs as usize).sum()
    }

    fn step(&mut self, case: &Case, seconds: f64) {
        self.done += 1;
        if let Some(index) = self.study.cases.iter().position(|one| one.name == case.name) {
            self.runs[index] = self.runs[index].saturating_sub(1);
        }
        self.most = self.most.map(|most| (most - seconds).max(0.0));
    }

    /// A case that cannot be run has no more turns.
    fn leave_out(&mut self, index: usize) {
        self.runs[index] = 0;
        self.total = self.done + self.to_go();
    }

    /// Time to go, as far as is known.
    fn left(&self, expectation: &Expectation, deadline: Option<Instant>) -> Option<Duration> {
        let left = expectation.of_runs(&self.study.cases, &self.runs);
        // Some runs of each case are made however little time there is.
        let beyond = self.study.repetitions.saturating_sub(FEWEST);
        let must: Vec<u32> = self.runs.iter().map(|runs| runs.saturating_sub(beyond)).collect();
        let must = expectation.of_runs(&self.study.cases, &must);
        let least = self.most.map_or(left, |most| left.min(most.max(must)));
        let left = Duration::try_from_secs_f64(least).ok()?;
        let session = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        Some(session.map_or(left, |session| session.min(left)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::study::facts::Facts;
    use crate::study::journal::JOURNAL;

    fn study() -> Study {
        Study::new("default", 3, 5, None, ["a", "b", "c", "broken"].map(Case::named).to_vec())
    }

    fn session() -> Session {
        Session { facts: Facts::here(), process: (1, 1) }
    }

    /// Counts its runs; `broken` never works.
    #[derive(Default)]
    struct Counting(HashMap<String, u32>);

    impl RunCase for Counting {
        fn run(&mut self, case: &Case) -> Result<Outcome> {
            *self.0.entry(case.name.clone()).or_default() += 1;
            if case.name == "broken" {
                return Err(Error::Absent { what: "it".into(), remedy: "mend it".into() });
            }
            Ok(Outcome { line: json!({"seconds": 0.25}), emulated: None, pages: Vec::new() })
        }
    }

    /// A user who looks at how far it is.
    #[derive(Default)]
    struct Looking(std::sync::Mutex<Vec<(usize, usize, Option<Duration>)>>);

    impl Watch for Looking {
        fn stopped(&self) -> bool {
            false
        }

        fn tell(&self, _line: &str) {}

        fn advance(&self, done: usize, total: usize, left: Option<Duration>, _: &str) {
            self.0.lock().unwrap().push((done, total, left));
        }
    }

    #[test]
    fn progress_never_goes_beyond_its_total_and_ends_there() {
        for seconds in [None, Some(0.0)] {
            let directory = tempfile::tempdir().unwrap();
            let study = Study { seconds, ..study() };
            let (mut journal, mut contents) = Journal::open(directory.path(), || study).unwrap();
            let (mut environments, watch) = (Counting::default(), Looking::default());
            resume(&mut journal, &mut contents, session(), &mut environments, &watch).unwrap();
            let seen = watch.0.into_inner().unwrap();
            assert!(seen.iter().all(|(done, total, _)| done <= total), "{seen:?}");
            let (&(done, total, _), before) = seen.split_last().unwrap();
            assert!(done == total && done > 0, "{seen:?}");
            // However little time there is, what is still run takes some.
            assert!(before.iter().all(|(.., left)| *left > Some(Duration::ZERO)), "{seen:?}");
        }
    }

    /// A user who waits for so many runs to begin.
    struct RunsLeft(AtomicUsize);

    impl Watch for RunsLeft {
        fn stopped(&self) -> bool {
            self.0.load(Ordering::Relaxed) == 0
        }

        fn tell(&self, _line: &str) {}

        fn advance(&self, _: usize, _: usize, _: Option<Duration>, _: &str) {
            self.0.store(self.0.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
        }
    }

    fn carry_on_for(directory: &Path, runs: usize, study: &Study) -> (Contents, Result<Ended>) {
        let (mut journal, mut contents) = Journal::open(directory, || study.clone()).unwrap();
        let (mut environments, watch) = (Counting::default(), RunsLeft(AtomicUsize::new(runs)));
        let ended = resume(&mut journal, &mut contents, session(), &mut environments, &watch);
        (contents, ended)
    }

    fn order(contents: &Contents) -> Vec<(String, u32)> {
        contents.samples.iter().map(|one| (one.case.clone(), one.repetition)).collect()
    }

    #[test]
    fn every_case_has_its_runs_and_what_is_broken_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let (contents, ended) = carry_on_for(directory.path(), usize::MAX, &study());
        ended.unwrap();
        assert_eq!(contents.samples.len(), 3 * 5);
        assert_eq!(contents.warm_ups.len(), 3);
        assert_eq!(contents.failed_runs.len(), 1, "what fails in its warm-up is not tried again");
        assert!(contents.failed_runs[0].sentence.contains("mend it"));
        let read = Contents::read(directory.path()).unwrap();
        assert_eq!(read.samples, contents.samples, "what is in memory is on the disk");
    }

    #[test]
    fn a_run_that_is_broken_off_loses_nothing_and_keeps_its_order() {
        let whole = tempfile::tempdir().unwrap();
        let (uninterrupted, _) = carry_on_for(whole.path(), usize::MAX, &study());
        for runs in 1..20 {
            let directory = tempfile::tempdir().unwrap();
            let (before, ended) = carry_on_for(directory.path(), runs, &study());
            assert!(matches!(ended, Err(Error::Stopped)), "after {runs}");
            let (after, ended) = carry_on_for(directory.path(), usize::MAX, &study());
            ended.unwrap();
            assert_eq!(after.samples[..before.samples.len()], before.samples, "after {runs}");
            assert_eq!(order(&after), order(&uninterrupted), "after {runs}");
            assert_eq!(after.sessions.len(), 2);
        }
    }

    /// As a killed process or machine leaves it: cut anywhere.
    #[test]
    fn a_journal_that_is_cut_anywhere_is_completed() {
        let whole = tempfile::tempdir().unwrap();
        let (uninterrupted, _) = carry_on_for(whole.path(), usize::MAX, &study());
        let bytes = std::fs::read(whole.path().join(JOURNAL)).unwrap();
        for length in (0..bytes.len()).step_by(211) {
            let directory = tempfile::tempdir().unwrap();
            std::fs::write(directory.path().join(JOURNAL), &bytes[..length]).unwrap();
            let (after, ended) = carry_on_for(directory.path(), usize::MAX, &study());
            ended.unwrap();
            assert_eq!(order(&after), order(&uninterrupted), "cut at {length}");
        }
    }

    #[test]
    fn a_session_without_time_runs_nothing_and_the_next_one_all() {
        let directory = tempfile::tempdir().unwrap();
        let go = |time| {
            let (mut journal, mut contents) = Journal::open(directory.path(), study).unwrap();
            let (mut environments, watch) = (Counting::default(), Looking::default());
            let places = &mut environments;
            let ended = resume_for(&mut journal, &mut contents, session(), places, &watch, time);
            (ended.unwrap(), contents.samples.len())
        };
        assert_eq!(go(Some(Duration::ZERO)), (Ended::OutOfTime, 0));
        assert_eq!(go(None), (Ended::Done, 3 * 5));
    }

    #[test]
    fn when_time_is_up_whole_repetitions_are_there() {
        let directory = tempfile::tempdir().unwrap();
        let short = Study { seconds: Some(0.0), ..study() };
        let (contents, ended) = carry_on_for(directory.path(), usize::MAX, &short);
        ended.unwrap();
        assert_eq!(contents.samples.len(), 3 * FEWEST as usize);
    }
}

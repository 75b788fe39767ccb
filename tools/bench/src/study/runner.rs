//! Running a study: run by run, each written to the journal before the next.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::case::Case;
use super::facts::LoadMonitor;
use super::journal::{Contents, Entry, FailedRun, Journal, Sample, Session};
use super::placement::Pages;
use super::schedule::turns;
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

/// Goes on with a study where its journal ends, until everything is measured, the time is used up,
/// or the user breaks it off. Cases that fail in their warm-up, or twice on end, are left out of
/// this session.
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
) -> Result<()> {
    let mut runner = StudyRunner { journal, contents, environments, watch };
    runner.put_down(Entry::Session(session))?;
    runner.go()
}

struct StudyRunner<'a> {
    journal: &'a mut Journal,
    contents: &'a mut Contents,
    environments: &'a mut dyn RunCase,
    watch: &'a dyn Watch,
}

impl StudyRunner<'_> {
    fn go(&mut self) -> Result<()> {
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
        let mut spent: f64 = self.contents.samples.iter().map(|sample| sample.around.seconds).sum();
        let mut progress = Progress::of(left.len(), study.seconds, spent);
        let mut to_warm: BTreeSet<usize> = left.iter().map(|turn| turn.case).collect();
        if study.seconds.is_some() {
            // Little time: one for each program and place. What is in the caches then is theirs.
            let mut seen = HashSet::new();
            to_warm.retain(|&index| {
                let case = &study.cases[index];
                seen.insert((case.environment, case.model, case.group))
            });
        }
        progress.total += to_warm.len();
        let mut out_of_order: HashSet<usize> = HashSet::new();
        let mut failed_before: HashSet<usize> = HashSet::new();
        for index in to_warm {
            let began = Instant::now();
            if !self.turn(&study.cases[index], 0, &progress)? {
                out_of_order.insert(index);
                progress.total -= left.iter().filter(|turn| turn.case == index).count();
            }
            progress.step(began.elapsed());
        }
        let mut repetition = 0;
        for (nth, turn) in left.iter().enumerate() {
            if out_of_order.contains(&turn.case) {
                continue;
            }
            let begins = turn.repetition > repetition;
            repetition = turn.repetition;
            // As long as those before it.
            let then = spent * f64::from(repetition) / f64::from(repetition.max(2) - 1);
            if begins && repetition > FEWEST && study.seconds.is_some_and(|most| then > most) {
                break;
            }
            let began = Instant::now();
            if self.turn(&study.cases[turn.case], turn.repetition, &progress)? {
                failed_before.remove(&turn.case);
            } else if !failed_before.insert(turn.case) {
                out_of_order.insert(turn.case);
                let later = left[nth + 1..].iter();
                progress.total -= later.filter(|later| later.case == turn.case).count();
            }
            spent += began.elapsed().as_secs_f64();
            progress.step(began.elapsed());
        }
        self.watch.advance(progress.done, progress.done, None, "done");
        Ok(())
    }

    /// Runs a case once; whether it could be run.
    fn turn(&mut self, case: &Case, repetition: u32, progress: &Progress) -> Result<bool> {
        if self.watch.stopped() {
            return Err(Error::Stopped);
        }
        self.watch.advance(progress.done, progress.total, progress.left(), &case.name);
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
struct Progress {
    done: usize,
    total: usize,
    took: Duration,
    /// Seconds that may be used, less what was used.
    most: Option<f64>,
}

impl Progress {
    fn of(total: usize, seconds: Option<f64>, spent: f64) -> Self {
        Self {
            done: 0,
            total,
            took: Duration::ZERO,
            most: seconds.map(|most| (most - spent).max(0.0)),
        }
    }

    fn step(&mut self, took: Duration) {
        self.done += 1;
        self.took += took;
    }

    /// Seconds to go, as far as is known.
    fn left(&self) -> Option<Duration> {
        const TELLING: usize = 5;
        if self.done < TELLING {
            return None;
        }
        let took = self.took.as_secs_f64();
        let left = took / self.done as f64 * self.total.saturating_sub(self.done) as f64;
        let least = self.most.map_or(left, |most| left.min((most - took).max(0.0)));
        Duration::try_from_secs_f64(least).ok()
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
    use crate::study::journal::{JOURNAL, Study};

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
    struct Looking(std::sync::Mutex<Vec<(usize, usize)>>);

    impl Watch for Looking {
        fn stopped(&self) -> bool {
            false
        }

        fn tell(&self, _line: &str) {}

        fn advance(&self, done: usize, total: usize, _: Option<Duration>, _: &str) {
            self.0.lock().unwrap().push((done, total));
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
            assert!(seen.iter().all(|(done, total)| done <= total), "{seen:?}");
            let (done, total) = seen[seen.len() - 1];
            assert!(done == total && done > 0, "{seen:?}");
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

    fn carry_on_for(directory: &Path, runs: usize, study: &Study) -> (Contents, Result<()>) {
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
    fn when_time_is_up_whole_repetitions_are_there() {
        let directory = tempfile::tempdir().unwrap();
        let short = Study { seconds: Some(0.0), ..study() };
        let (contents, ended) = carry_on_for(directory.path(), usize::MAX, &short);
        ended.unwrap();
        assert_eq!(contents.samples.len(), 3 * FEWEST as usize);
    }
}

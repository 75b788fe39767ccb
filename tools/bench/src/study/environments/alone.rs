//! One process, or the same one twice.

use std::path::Path;

use serde_json::{Value, json};
use vshmem_plan::NumberSet;

use super::places::{Places, patient};
use crate::error::Result;
use crate::kernel::line_of;
use crate::site::{Job, run_bare};
use crate::study::case::{Better, Case};
use crate::study::environment::Environment;
use crate::study::placement::Pinned;

impl Places {
    pub(super) fn alone(
        &mut self,
        case: &Case,
        program: &str,
        arguments: &[String],
        variables: &[(String, String)],
    ) -> Result<String> {
        let mut job = self.job(case, program, arguments)?;
        job.environment.extend(variables.iter().cloned());
        let said = self.run_one(case, &job);
        if case.environment == Environment::Native {
            let _ = std::fs::remove_file(self.tmpfs_file());
            let _ = std::fs::remove_file(self.disk_file());
        }
        said
    }

    /// Both in one kernel, in one guest, or one in each of two guests.
    pub(super) fn twice(
        &mut self,
        case: &Case,
        program: &str,
        arguments: &[String],
    ) -> Result<String> {
        let job = self.job(case, program, arguments)?;
        let cpus: Vec<NumberSet> = match &self.setup.placement {
            Some(placement) => {
                [0, 1].map(|nth| [placement.cpu_of(nth)].into_iter().collect()).into()
            }
            None => Vec::new(),
        };
        let guest_lab = match case.environment {
            Environment::Native => None,
            Environment::Guest => Some((self.guests(1, Some(&job.program))?, [1, 1])),
            _ => Some((self.guests(2, Some(&job.program))?, [1, 2])),
        };
        let run = |nth: usize| match &guest_lab {
            None => {
                let _pinned = cpus.get(nth).map(Pinned::to).transpose()?;
                run_bare(&job)
            }
            Some((guests, numbers)) => guests.run_in(numbers[nth], &job),
        };
        let (one, other) = std::thread::scope(|scope| {
            let other = scope.spawn(|| run(1));
            let one = run(0);
            (one, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let lines: [Value; 2] = [line_of(&case.name, &one?)?, line_of(&case.name, &other?)?];
        let mut both = json!({ "runs": lines });
        for figure in &case.figures {
            let [one, other] = lines.each_ref().map(|line| figure.of(line));
            both[&figure.member] = json!(one.zip(other).map(|(one, other)| match figure.better {
                Better::More => one + other,
                Better::Less => one.max(other),
            }));
        }
        Ok(both.to_string())
    }

    fn job(&self, case: &Case, program: &str, arguments: &[String]) -> Result<Job> {
        let program = self.setup.kernels.find(program)?;
        let shown = |path: &Path| path.display().to_string();
        let arguments = arguments.iter().map(|word| match word.as_str() {
            "{tmpfs}" => shown(&self.tmpfs_file()),
            "{disk}" => shown(&self.disk_file()),
            word => word.to_owned(),
        });
        let arguments = arguments.collect();
        Ok(patient(case, program, arguments))
    }

    /// In memory, on the host and in guests.
    fn tmpfs_file(&self) -> std::path::PathBuf {
        Path::new("/dev/shm").join(format!("vshmem-bench-{}.scratch", std::process::id()))
    }

    fn disk_file(&self) -> std::path::PathBuf {
        self.setup.scratch.join(".scratch")
    }
}

//! Under Open MPI: its own shared memory in one kernel, the pool between guests.

use std::process::{Command, Stdio};

use super::places::{Places, TIMEOUT};
use crate::error::{Error, Result};
use crate::study::case::Case;
use crate::study::environment::Environment;

impl Places {
    pub(super) fn mpirun(
        &mut self,
        case: &Case,
        program: &str,
        arguments: &[String],
    ) -> Result<String> {
        let beside = self.setup.kernels.find(&format!("../mpi/{program}"));
        let file = beside.or_else(|_| self.setup.kernels.find(program)).map_err(|_| Error::Absent {
            what: program.to_owned(),
            remedy: "`apt-get install vshmem-openmpi` installs it; in the source tree `make programs` builds it where Open MPI is (libopenmpi-dev, openmpi-bin)"
                .into(),
        })?;
        let ranks = case.ranks.to_string();
        if case.environment == Environment::Native {
            let mut command = Command::new("timeout");
            command.args(["--foreground", "-k", "5", &TIMEOUT.to_string()]);
            command.args(["mpirun", "--oversubscribe", "--mca", "pml", "ob1"]);
            command.args(["--mca", "btl", "vader,self", "-np", &ranks]);
            if let Some(placement) = &self.setup.placement {
                command.args(["--bind-to", "none"]).args(placement.words_under_mpirun(case.ranks));
            }
            command.arg(&file).args(arguments);
            command
                .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
            let said = command
                .stdin(Stdio::null())
                .output()
                .map_err(Error::io("run mpirun (package openmpi-bin)"))?;
            let text = String::from_utf8_lossy(&said.stdout).into_owned();
            if said.status.success() {
                return Ok(json_line(&text));
            }
            return Err(Error::Program {
                command: format!("mpirun -np {ranks} {program} {}", arguments.join(" ")),
                place: "on this machine".into(),
                status: said.status.to_string(),
                output: String::from_utf8_lossy(&said.stderr).trim().to_owned(),
            });
        }
        let hosts = if case.environment == Environment::Guest { 1 } else { super::places::GUESTS };
        let guests = self.guests(hosts, Some(&file))?;
        let slots = case.ranks.div_ceil(hosts);
        let places: Vec<String> =
            (1..=hosts).map(|guest| format!("guest{guest}:{slots}")).collect();
        let line = format!(
            "env=$(vshmem mpi-env) && eval \"$env\" && exec timeout -k 5 {TIMEOUT} mpirun --map-by ppr:{slots}:node:OVERSUBSCRIBE -H {} -np {ranks} {} {}",
            places.join(","),
            guests.place_of(&file).display(),
            arguments.join(" ")
        );
        guests.shell(1, &line).map(|text| json_line(&text))
    }
}

/// The program's line, among what `mpirun` may say.
fn json_line(text: &str) -> String {
    text.lines().rfind(|line| line.starts_with('{')).unwrap_or(text).to_owned()
}

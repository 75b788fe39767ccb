//! Programs of other people.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::places::{Places, TIMEOUT};
use crate::error::{Error, Result};
use crate::kernel::line_of;
use crate::site::{Guests, Memory};
use crate::study::case::Case;
use crate::study::environment::Environment;
use crate::study::known::{HPCC_INPUT, Known, fairness, hpcc_summary, nas_summary};

/// Seconds of a stream.
const STREAM: u32 = 3;
/// Bytes that fio writes.
const WRITTEN: &str = "64M";

impl Places {
    pub(super) fn known(&mut self, case: &Case, study: &Known, count: u32) -> Result<String> {
        let file = study.find(self.setup.nas.as_deref())?;
        let value = match study {
            Known::Iperf3 => self.streams(case, &file, count)?,
            Known::Fio => self.fio(case, &file)?,
            Known::Hpcc => {
                let text = self.in_mpi(case, &file, "cat hpccoutf.txt")?;
                hpcc_summary(&text)
            }
            Known::Nas(name) => {
                let text = self.in_mpi(case, &file, "cat output")?;
                nas_summary(&text).ok_or_else(|| Error::NoFigure {
                    case: name.clone(),
                    member: "Verification = SUCCESSFUL".into(),
                    line: text,
                })?
            }
        };
        Ok(value.to_string())
    }

    /// A line of shell, in the place of a case.
    fn line(&mut self, case: &Case, line: &str) -> Result<String> {
        match case.environment {
            Environment::Native => shell(line),
            _ => self.guests(1, None)?.shell(1, line),
        }
    }

    /// Runs a program under mpirun in a directory of its own, and says what `and_then` prints
    /// there.
    fn in_mpi(&mut self, case: &Case, file: &Path, and_then: &str) -> Result<String> {
        let directory = format!("/tmp/vshmem-bench-{}-{}", std::process::id(), self.fresh());
        let ranks = case.ranks;
        let placed = match (&self.setup.placement, case.environment) {
            (Some(placement), Environment::Native) => {
                let [shell, option, line, cpus] = placement.words_under_mpirun(ranks);
                format!("--bind-to none {shell} {option} '{line}' {cpus} ")
            }
            _ => String::new(),
        };
        let (mpi, program) = match case.environment {
            Environment::Native => (
                "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; set -- mpirun --oversubscribe --mca pml ob1 --mca btl vader,self".to_owned(),
                file.to_owned(),
            ),
            _ => {
                let guests = self.guests(super::places::GUESTS, Some(file))?;
                let hosts = format!(
                    "--map-by ppr:{0}:node:OVERSUBSCRIBE -H guest1:{0},guest2:{0}",
                    ranks.div_ceil(super::places::GUESTS)
                );
                (
                    format!("env=$(vshmem mpi-env) || exit 1; eval \"$env\"; set -- mpirun {hosts}"),
                    guests.place_of(file),
                )
            }
        };
        // Processes of other guests begin in their own directories; files are written by the first
        // one, here.
        for guest in
            2..=if case.environment == Environment::Native { 0 } else { super::places::GUESTS }
        {
            self.guests(super::places::GUESTS, None)?
                .shell(guest, &format!("mkdir -p {directory}"))?;
        }
        let program = program.display();
        let line = format!(
            "{mpi}; mkdir -p {directory} && cd {directory} && printf '%s' '{HPCC_INPUT}' >hpccinf.txt && \
             timeout -k 5 {TIMEOUT} \"$@\" -np {ranks} {placed}{program} >output 2>&1 && {and_then}; status=$?; \
             [ $status = 0 ] || tail -n 5 output >&2; cd /; rm -rf {directory}; exit $status"
        );
        self.line(case, &line)
    }

    fn fio(&mut self, case: &Case, program: &Path) -> Result<Value> {
        let file = match case.environment {
            Environment::Native => "/dev/shm/vshmem-bench-fio",
            _ => "/tmp/vshmem-bench-fio",
        };
        let line = format!(
            "{} --name=writes --rw=write --bs={} --size={WRITTEN} --filename={file} --unlink=1 --output-format=json",
            program.display(),
            case.n
        );
        let text = self.line(case, &line)?;
        let report: Value = line_of("fio", &text)?;
        Ok(json!({ "bytes_per_second": report["jobs"][0]["write"]["bw_bytes"] }))
    }

    /// Streams between neighbours, from guest 1 to 2, from 3 to 4 and so on, all at once; natively
    /// over loopback.
    fn streams(&mut self, case: &Case, program: &Path, count: u32) -> Result<Value> {
        if case.environment == Environment::Native {
            let line = stream_line(program, Ipv4Addr::LOCALHOST);
            return Ok(summed(&[rate(&shell(&format!("{} {line}", serve_line(program)))?)?]));
        }
        if count <= super::places::GUESTS {
            let guests = self.guests(super::places::GUESTS, None)?;
            return streams_of(guests, program, super::places::GUESTS);
        }
        // A lab of its own, for this run.
        let guests = self.boot(count, Memory::default())?;
        streams_of(&guests, program, count)
    }
}

/// A server that ends after its first client, or for want of one.
fn serve_line(program: &Path) -> String {
    format!("setsid timeout 60 {} -s -1 </dev/null >/dev/null 2>&1 &", program.display())
}

fn stream_line(program: &Path, to: Ipv4Addr) -> String {
    let client = program.display();
    // The server may take a moment to listen; what the client says of that is an object, too.
    format!(
        "n=0; until {client} -c {to} -t {STREAM} -J >/tmp/vshmem-bench-stream && \
         ! grep -q '\"error\":' /tmp/vshmem-bench-stream; do n=$((n+1)); \
         [ $n -lt 20 ] || {{ cat /tmp/vshmem-bench-stream >&2; exit 1; }}; sleep 0.1; done; \
         cat /tmp/vshmem-bench-stream; rm -f /tmp/vshmem-bench-stream"
    )
}

fn streams_of(guests: &Guests, program: &Path, count: u32) -> Result<Value> {
    for guest in (2..=count).step_by(2) {
        guests.shell(guest, &serve_line(program))?;
    }
    let rates: Vec<Result<f64>> = std::thread::scope(|scope| {
        let streams: Vec<_> = (1..=count)
            .step_by(2)
            .map(|guest| {
                scope.spawn(move || {
                    let line = stream_line(program, guests.address_of(guest + 1)?);
                    rate(&guests.shell(guest, &line)?)
                })
            })
            .collect();
        let ended = streams.into_iter().map(|stream| stream.join());
        ended.map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    Ok(summed(&rates.into_iter().collect::<Result<Vec<f64>>>()?))
}

fn rate(text: &str) -> Result<f64> {
    let report: Value = line_of("iperf3", text)?;
    let bits = report["end"]["sum_received"]["bits_per_second"].as_f64();
    bits.ok_or_else(|| Error::NoFigure {
        case: "iperf3".into(),
        member: "end.sum_received.bits_per_second".into(),
        line: text.chars().take(200).collect(),
    })
}

fn summed(rates: &[f64]) -> Value {
    json!({ "bits": rates.iter().sum::<f64>(), "streams": rates, "fairness": fairness(rates) })
}

fn shell(line: &str) -> Result<String> {
    let said = Command::new("/bin/sh")
        .args(["-c", line])
        .stdin(Stdio::null())
        .output()
        .map_err(Error::io("run /bin/sh"))?;
    if said.status.success() {
        return Ok(String::from_utf8_lossy(&said.stdout).into_owned());
    }
    Err(Error::Program {
        command: line.chars().take(120).collect(),
        place: "on this machine".into(),
        status: said.status.to_string(),
        output: String::from_utf8_lossy(&said.stderr).trim().to_owned(),
    })
}

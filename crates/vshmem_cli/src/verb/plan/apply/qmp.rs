//! QEMU's monitor protocol (QMP): a question and its answer, each a line of JSON.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

/// How long QEMU may take to answer.
const ANSWER: Duration = Duration::from_secs(60);
/// No answer to what is asked here is longer.
const LONGEST: u64 = 1 << 20;

/// A connection to the monitor of a guest.
pub struct Qmp {
    reader: BufReader<UnixStream>,
}

impl Qmp {
    /// Greets QEMU.
    pub fn new(stream: UnixStream) -> Result<Self, String> {
        stream.set_read_timeout(Some(ANSWER)).map_err(|error| error.to_string())?;
        let mut qmp = Self { reader: BufReader::new(stream) };
        let greeting = qmp.line()?;
        if greeting.get("QMP").is_none() {
            return Err(format!("it greets with {greeting}"));
        }
        qmp.ask("qmp_capabilities")?;
        Ok(qmp)
    }

    /// Has a command without arguments carried out; what it returns.
    pub fn ask(&mut self, command: &str) -> Result<Value, String> {
        let question = format!("{}\n", json!({ "execute": command }));
        self.reader.get_mut().write_all(question.as_bytes()).map_err(|error| error.to_string())?;
        loop {
            let mut answer = self.line()?;
            if let Some(error) = answer.get("error") {
                return Err(format!("{command}: {error}"));
            }
            if let Some(answer) = answer.get_mut("return") {
                return Ok(answer.take());
            }
            // All else are events.
        }
    }

    /// The thread of each vCPU: (vCPU, thread).
    pub fn vcpu_threads(&mut self) -> Result<Vec<(usize, u32)>, String> {
        let answer = self.ask("query-cpus-fast")?;
        let number = |cpu: &Value, name: &str| cpu.get(name)?.as_u64();
        let pair = |cpu: &Value| {
            let (index, thread) = (number(cpu, "cpu-index")?, number(cpu, "thread-id")?);
            Some((usize::try_from(index).ok()?, u32::try_from(thread).ok()?))
        };
        let cpus = answer.as_array().ok_or("query-cpus-fast: the answer is no list")?;
        cpus.iter()
            .map(|cpu| pair(cpu).ok_or(format!("query-cpus-fast: a vCPU without a thread: {cpu}")))
            .collect()
    }

    fn line(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        let mut limited = std::io::Read::take(&mut self.reader, LONGEST);
        match limited.read_line(&mut line) {
            Ok(0) => Err("it closed the connection".into()),
            Ok(_) => serde_json::from_str(&line).map_err(|error| format!("{error} in its answer")),
            Err(error) => Err(error.to_string()),
        }
    }
}

//! QEMU's monitor protocol (QMP): a question and its answer, each a line of JSON, and events
//! between them.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long QEMU may take to answer.
const ANSWER: Duration = Duration::from_secs(60);
/// No answer to what is asked here is longer.
const LONGEST: u64 = 1 << 20;
/// Events that are kept; the oldest go.
const MOST_EVENTS: usize = 256;

/// A connection to the monitor of a guest.
pub struct Qmp {
    reader: BufReader<UnixStream>,
    /// What has come between questions and answers, and nobody has waited for yet.
    events: Vec<Value>,
}

impl Qmp {
    /// Connects to the socket that QEMU was given with `-qmp unix:PATH,server=on,wait=off`.
    pub fn connect(socket: &Path) -> Result<Self, String> {
        UnixStream::connect(socket)
            .map_err(|error| error.to_string())
            .and_then(Self::new)
            .map_err(|error| {
                let socket = socket.display();
                format!(
                    "{socket}: QEMU's monitor: {error}. Start QEMU with `-qmp unix:{socket},server=on,wait=off`"
                )
            })
    }

    /// Greets QEMU.
    pub fn new(stream: UnixStream) -> Result<Self, String> {
        stream.set_read_timeout(Some(ANSWER)).map_err(|error| error.to_string())?;
        let mut qmp = Self { reader: BufReader::new(stream), events: Vec::new() };
        let greeting = qmp.line()?;
        if greeting.get("QMP").is_none() {
            return Err(format!("it greets with {greeting}"));
        }
        qmp.ask("qmp_capabilities")?;
        Ok(qmp)
    }

    /// Has a command without arguments carried out; what it returns.
    pub fn ask(&mut self, command: &str) -> Result<Value, String> {
        self.ask_with(command, &json!({}))
    }

    /// Has a command carried out; what it returns.
    pub fn ask_with(&mut self, command: &str, arguments: &Value) -> Result<Value, String> {
        let question = format!("{}\n", json!({ "execute": command, "arguments": arguments }));
        self.reader.get_mut().write_all(question.as_bytes()).map_err(|error| error.to_string())?;
        loop {
            let mut answer = self.line()?;
            if let Some(error) = answer.get("error") {
                let said = error.get("desc").and_then(Value::as_str);
                return Err(format!("{command}: {}", said.unwrap_or(&error.to_string())));
            }
            if let Some(answer) = answer.get_mut("return") {
                return Ok(answer.take());
            }
            self.keep(answer);
        }
    }

    /// What QEMU is doing: running, inmigrate, postmigrate...
    pub fn status(&mut self) -> Result<String, String> {
        let status = self.ask("query-status")?;
        Ok(status.get("status").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    /// A property of an object of QEMU's.
    pub fn property(&mut self, path: &str, property: &str) -> Result<Value, String> {
        self.ask_with("qom-get", &json!({ "path": path, "property": property }))
    }

    /// The same as text; empty where it is none.
    pub fn text(&mut self, path: &str, property: &str) -> Result<String, String> {
        Ok(self.property(path, property)?.as_str().unwrap_or_default().to_owned())
    }

    /// What lies in an object: (name, type).
    pub fn children(&mut self, path: &str) -> Result<Vec<(String, String)>, String> {
        let list = self.ask_with("qom-list", &json!({ "path": path }))?;
        let word = |row: &Value, name: &str| Some(row.get(name)?.as_str()?.to_owned());
        let rows = list.as_array().ok_or("qom-list: the answer is no list")?;
        Ok(rows.iter().filter_map(|row| Some((word(row, "name")?, word(row, "type")?))).collect())
    }

    /// Waits until `end` for an event of which `chosen` makes something. `None`: there was none.
    pub fn event<T>(
        &mut self,
        end: Instant,
        chosen: impl Fn(&str, &Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        loop {
            for event in std::mem::take(&mut self.events) {
                let name = event.get("event").and_then(Value::as_str).unwrap_or_default();
                let found = chosen(name, event.get("data").unwrap_or(&Value::Null));
                if found.is_some() {
                    return Ok(found);
                }
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(50));
            // An answer comes behind all events that were there before it.
            self.ask("query-status")?;
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

    fn keep(&mut self, event: Value) {
        if self.events.len() == MOST_EVENTS {
            self.events.remove(0);
        }
        self.events.push(event);
    }

    fn line(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        let mut limited = std::io::Read::take(&mut self.reader, LONGEST);
        match limited.read_line(&mut line) {
            Ok(0) => Err("it closed the connection".into()),
            Ok(_) => serde_json::from_str(&line).map_err(|error| format!("{error} in its answer")),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(format!(
                "no answer for {} s. It talks to one program at a time, and another one may be connected",
                ANSWER.as_secs()
            )),
            Err(error) => Err(error.to_string()),
        }
    }
}

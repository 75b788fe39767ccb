//! Where a topology is read from.

use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

use super::{Machine, hwloc_xml};
use crate::error::Error;

/// hwloc's command that writes topologies.
const LSTOPO: &str = "lstopo-no-graphics";

/// Where a topology is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The machine that this runs on.
    This,
    /// A file that `lstopo --of xml` wrote.
    Xml(PathBuf),
    /// hwloc's description of a machine that need not exist (hwloc(7), synthetic topologies).
    Synthetic(String),
    /// A copy of another machine's /sys and /proc, as `hwloc-gather-topology` makes it.
    Sysfs(PathBuf),
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "this" => Ok(Self::This),
            Some(("xml", file)) => Ok(Self::Xml(file.into())),
            Some(("synthetic", machine)) => Ok(Self::Synthetic(machine.to_owned())),
            Some(("sysfs", directory)) => Ok(Self::Sysfs(directory.into())),
            _ => Err("use this, xml:FILE, synthetic:STRING or sysfs:DIRECTORY".into()),
        }
    }
}

impl Source {
    /// Reads it. Another machine's files are read here; all else hwloc's own command tells.
    ///
    /// # Errors
    /// [`Error::Source`] when that command is not installed or refuses, or its answer makes no
    /// sense.
    pub fn read(&self) -> Result<Machine, Error> {
        let text = match self {
            Self::Xml(file) => std::fs::read_to_string(file).map_err(|error| {
                let remedy = "Write one with `lstopo-no-graphics --of xml FILE`";
                self.error(error.to_string(), remedy)
            })?,
            _ => self.ask()?,
        };
        hwloc_xml::read(&text).map_err(|found| {
            let remedy = "Write it anew with `lstopo-no-graphics --of xml FILE` of hwloc 2";
            self.error(found, remedy)
        })
    }

    /// What hwloc's command writes.
    fn ask(&self) -> Result<String, Error> {
        let mut command = Command::new(LSTOPO);
        for variable in ["HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT", "HWLOC_COMPONENTS"] {
            command.env_remove(variable);
        }
        // A plan is about CPUs and memory; looking at devices takes time and rights.
        command.args(["--of", "xml", "--no-io"]);
        match self {
            Self::Synthetic(text) => {
                command.args(["--input", text, "--input-format", "synthetic"]);
            }
            Self::Sysfs(directory) => {
                if !directory.join("sys").is_dir() {
                    let remedy = "Make one with `hwloc-gather-topology NAME` and unpack it";
                    return Err(self.error("there is no directory `sys` in it".into(), remedy));
                }
                // This machine's own CPUID says nothing about another.
                command.env("HWLOC_FSROOT", directory).env("HWLOC_COMPONENTS", "linux,stop");
            }
            Self::This | Self::Xml(_) => {}
        }
        let output = command.output().map_err(|error| {
            let remedy = "Install hwloc: `apt-get install hwloc-nox`";
            self.error(format!("{LSTOPO}: {error}"), remedy)
        })?;
        if output.status.success() && !output.stdout.is_empty() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it wrote nothing");
        let remedy = "Try it with `lstopo-no-graphics`, whose manual page has the form";
        Err(self.error(format!("{LSTOPO} refused it: {}", said.trim()), remedy))
    }

    fn error(&self, found: String, remedy: &str) -> Error {
        let source_name = match self {
            Self::This => "this machine".to_owned(),
            Self::Xml(file) => file.display().to_string(),
            Self::Synthetic(text) => format!("synthetic:{text}"),
            Self::Sysfs(directory) => directory.display().to_string(),
        };
        Error::Source { source_name, found, remedy: remedy.to_owned() }
    }
}

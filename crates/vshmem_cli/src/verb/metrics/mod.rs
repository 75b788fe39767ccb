//! `vshmem metrics`: what has been counted in pools, as Prometheus reads it. Looks without joining.

mod connections;
mod exposition;
mod listen;
mod sample;

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use vshmem_session::open_pool;

use crate::failure::{Failure, Outcome, failed};
use crate::{choice, show};

use exposition::Exposition;

/// Write what has been counted in pools for Prometheus.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Metrics {
    /// A pool; may be given several times. Without: as `vshmem run` finds it.
    #[arg(long)]
    pool: Vec<String>,
    /// Answer requests of GET /metrics at this address until stopped. Every process that reaches it
    /// may read it.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "output")]
    listen: Option<String>,
    /// Write it to this file, whole or not at all, as node_exporter's textfile collector wants it.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  vshmem metrics --pool job7                         on standard output
  vshmem metrics --pool job7 --listen 127.0.0.1:9809
  vshmem metrics --pool job7 --output /var/lib/prometheus/node-exporter/vshmem.prom

Names that end in _total only rise, until an object is removed; rate() makes rates of them. They
are counted as `vshmem top` counts. A reading may be a few too high while others write: with
--listen and --output the next one is not below it. Bytes of messages are not counted: multiply the rate of
vshmem_queue_messages_total by vshmem_queue_message_bytes_mean.";

impl Metrics {
    /// Writes them.
    pub fn carry_out(self) -> Outcome {
        match (&self.listen, &self.output) {
            (Some(address), _) => {
                let make = |before: &str| Ok(self.samples()?.not_below(before).text());
                listen::serve(address, make)?;
            }
            (None, Some(path)) => {
                write(path, &self.samples()?.not_below(&written_before(path)).text())?;
            }
            (None, None) => show::text(&self.samples()?.text())?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Of all pools that were named, as they are now.
    fn samples(&self) -> Result<Exposition, Failure> {
        let mut exposition = Exposition::new();
        let named: Vec<Option<&str>> = match &self.pool[..] {
            [] => vec![None],
            names => names.iter().map(|name| Some(name.as_str())).collect(),
        };
        let mut written = Written::default();
        let (mut failed, mut has_read) = (None, false);
        for name in named {
            match written.with(name, &exposition) {
                Ok(more) => (exposition, has_read) = (more, true),
                // What the members of one pool have spoilt hides no other pool.
                Err(failure) => {
                    let name = name.unwrap_or_default();
                    if written.names.insert(name.to_owned()) {
                        sample::readable(name, false, &mut exposition);
                    }
                    failed = Some(failure);
                }
            }
        }
        match failed {
            Some(failure) if !has_read => Err(failure),
            _ => Ok(exposition),
        }
    }
}

/// What was written so far. A pool's UUID and name in its memory are its members' words, who may
/// name another pool: what counts is the file or device, and its name.
#[derive(Debug, Default)]
struct Written {
    paths: HashSet<PathBuf>,
    names: HashSet<String>,
}

impl Written {
    /// The samples so far, and those of one more pool.
    fn with(&mut self, name: Option<&str>, so_far: &Exposition) -> Result<Exposition, Failure> {
        let mut exposition = so_far.clone();
        let link = choice::open(name)?;
        let path = link.path().canonicalize().unwrap_or_else(|_| link.path().to_owned());
        let pool = open_pool(link.as_ref())?;
        // A pool that is named twice, by name and by path, has its samples once.
        if !self.paths.insert(path.clone()) {
            return Ok(exposition);
        }
        let of_file = path.file_name().and_then(|file| file.to_str()?.strip_prefix("vshmem."));
        let mut label = of_file.map_or_else(|| pool.name(), str::to_owned);
        if self.names.contains(&label) {
            label = path.display().to_string();
        }
        sample::readable(&label, true, &mut exposition);
        sample::add(&pool, &label, &mut exposition)?;
        self.names.insert(label);
        Ok(exposition)
    }
}

/// What the file holds that is written anew; nothing where it is no file of ours.
fn written_before(path: &Path) -> String {
    const MOST_BYTES: u64 = 64 << 20;
    let is_file = |meta: std::fs::Metadata| meta.is_file() && meta.len() <= MOST_BYTES;
    if !std::fs::symlink_metadata(path).is_ok_and(is_file) {
        return String::new();
    }
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Writes a file whole or not at all: beside its place first.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let Some(name) = path.file_name() else {
        return failed(format!("--output {}: it is not a file", path.display()));
    };
    // Renaming would put a file where a device or a link was: also where /dev/null was.
    if std::fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return failed(format!(
            "--output {}: it is there, and is no regular file. Name a file, or leave --output out for standard output",
            path.display()
        ));
    }
    let mut draft_name = std::ffi::OsString::from(".");
    draft_name.push(name);
    draft_name.push(format!(".{}", std::process::id()));
    let draft = path.with_file_name(draft_name);
    let opened = OpenOptions::new().write(true).create_new(true).open(&draft);
    let written = opened.and_then(|mut file| {
        let written = file.write_all(text.as_bytes());
        written.and_then(|()| std::fs::rename(&draft, path)).inspect_err(|_| {
            // Only what was made here.
            let _ = std::fs::remove_file(&draft);
        })
    });
    if let Err(error) = written {
        return failed(format!(
            "--output {}: it cannot be written ({error}). Name a file in a directory that is there and that you may write to, as in `vshmem metrics --output /tmp/vshmem.prom`",
            path.display()
        ));
    }
    Ok(())
}

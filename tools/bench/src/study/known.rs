//! Well-known programs of other people: run when they are there.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::figure::Figure;
use crate::error::{Error, Result};

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// The HPC Challenge: STREAM, RandomAccess, PTRANS, HPL, rings.
    Hpcc,
    /// One of the NAS parallel benchmarks, built for MPI: its file's name.
    Nas(String),
    /// Streams between pairs of guests, all at once.
    Iperf3,
    /// Writes of one size.
    Fio,
}

impl Known {
    /// The command.
    #[must_use]
    pub fn command(&self) -> &str {
        match self {
            Self::Hpcc => "hpcc",
            Self::Nas(name) => name,
            Self::Iperf3 => "iperf3",
            Self::Fio => "fio",
        }
    }

    /// Finds the command.
    ///
    /// # Errors
    /// Says how to get it.
    pub fn find(&self, nas: Option<&Path>) -> Result<PathBuf> {
        let absent = |remedy: String| Error::Absent { what: self.command().to_owned(), remedy };
        if let Self::Nas(name) = self {
            let file = nas.map(|directory| directory.join(name)).filter(|file| file.is_file());
            return file.ok_or_else(|| {
                absent("build the NAS parallel benchmarks for MPI and name their bin directory with --nas".into())
            });
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|place| place.join(self.command()));
        found.into_iter().find(|file| file.is_file()).ok_or_else(|| {
            absent(format!(
                "install the package of that name (`apt-get install {}`)",
                self.command()
            ))
        })
    }

    /// What is read from it.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        match self {
            Self::Hpcc => vec![
                Figure::rate("HPL_Tflops", "Tflop/s"),
                Figure::rate("StarSTREAM_Triad", "GB/s"),
                Figure::rate("MPIRandomAccess_GUPs", "GUP/s"),
                Figure::rate("PTRANS_GBs", "GB/s"),
                Figure::cost("RandomlyOrderedRingLatency_usec", "us"),
                Figure::rate("RandomlyOrderedRingBandwidth_GBytes", "GB/s"),
            ],
            Self::Nas(_) => vec![Figure::cost("seconds", "s"), Figure::rate("mops", "Mop/s")],
            Self::Iperf3 => vec![Figure::rate("bits", "bit/s"), Figure::rate("fairness", "")],
            Self::Fio => vec![Figure::rate("bytes_per_second", "B/s")],
        }
    }
}

/// The summary of `hpccoutf.txt`: `NAME=NUMBER` between two lines that say so.
#[must_use]
pub fn hpcc_summary(text: &str) -> Value {
    let inside = text.lines().skip_while(|line| !line.starts_with("Begin of Summary"));
    let lines = inside.skip(1).take_while(|line| !line.starts_with("End of Summary"));
    let pairs = lines.filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim().to_owned(), json!(value.trim().parse::<f64>().ok()?)))
    });
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// What a NAS benchmark prints at its end; nothing if its own check has failed.
#[must_use]
pub fn nas_summary(text: &str) -> Option<Value> {
    // Some have lines before that begin with the same words ("Verification being performed for
    // class A").
    let field = |name: &str| {
        let mut fields = text.lines().filter_map(|line| line.split_once('='));
        let (_, value) = fields.find(|(found, _)| found.trim() == name)?;
        value.split_whitespace().next().map(str::to_owned)
    };
    if field("Verification")? != "SUCCESSFUL" {
        return None;
    }
    let number = |name: &str| field(name)?.parse::<f64>().ok();
    Some(json!({ "seconds": number("Time in seconds")?, "mops": number("Mop/s total")? }))
}

/// Jain's index of fairness: 1 when all have the same, 1/n when one has everything.
#[must_use]
pub fn fairness(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// Input for a small run of hpcc by two processes.
pub const HPCC_INPUT: &str = "\
HPLinpack benchmark input file
vshmem bench
HPL.out
8
1 number of problem sizes
1000 order
1 number of block sizes
80 block size
0 row-major process mapping
1 number of process grids
1 rows
2 columns
16.0 threshold
1 number of panel factorisations
2 right-looking
1 number of stopping criteria
4
1 number of panels in recursion
2
1 number of recursive factorisations
1
1 number of broadcasts
1
1 number of lookahead depths
1
2 swapping
64 swapping threshold
0 L1 transposed
0 U transposed
1 equilibration
8 memory alignment
##### for PTRANS
0 number of additional sizes
1200 10000 30000
0 number of additional block sizes
40 9 8 13 13 20 16 32 64
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_read() {
        let hpcc = "noise=1\nBegin of Summary section.\nHPL_Tflops=0.0123\nLANG=C\nPTRANS_GBs=2.5\nEnd of Summary section.\nx=2\n";
        assert_eq!(hpcc_summary(hpcc), json!({"HPL_Tflops": 0.0123, "PTRANS_GBs": 2.5}));
        let nas = " Time in seconds =                     1.25\n Mop/s total     =                  1197.10\n \
                   Verification    =               SUCCESSFUL\n";
        assert_eq!(nas_summary(nas), Some(json!({"seconds": 1.25, "mops": 1197.10})));
        assert_eq!(nas_summary(&nas.replace("SUCCESSFUL", "UNSUCCESSFUL")), None);
    }

    #[test]
    fn fairness_is_of_one() {
        assert_eq!(fairness(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(fairness(&[4.0, 0.0, 0.0, 0.0]), 0.25);
    }

    #[test]
    fn what_is_absent_says_how_to_get_it() {
        let error = Known::Nas("cg.A.x".into()).find(None).unwrap_err().to_string();
        assert!(error.contains("--nas"), "{error}");
    }
}

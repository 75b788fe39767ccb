//! Why a measurement did not take place.

use std::io;
use std::path::PathBuf;

/// The result of a step of a measurement.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What was tried, what came back, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A C program is not built.
    #[error("{name}: not found at any of {}. `apt-get install vshmem-tools` installs it; in the source tree `make programs` builds it", list(.places))]
    NoKernel {
        /// The program.
        name: String,
        /// Where it was looked for.
        places: Vec<PathBuf>,
    },
    /// A program failed.
    #[error("`{command}` {place} failed ({status}): {output}")]
    Program {
        /// Its command line.
        command: String,
        /// Where it ran.
        place: String,
        /// How it ended.
        status: String,
        /// What it wrote on standard error.
        output: String,
    },
    /// A program's line of figures is invalid.
    #[error("`{command}` printed {line:?} instead of one line of figures: {source}")]
    Reading {
        /// Its command line.
        command: String,
        /// What it printed.
        line: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The place asked for cannot be had.
    #[error("no {place} here: {why}")]
    NoSite {
        /// Which place.
        place: &'static str,
        /// What stood in the way.
        why: String,
    },
    /// A program did not say what it was run for.
    #[error("{case}: no number `{member}` in what the program printed: {line}")]
    NoFigure {
        /// What was measured.
        case: String,
        /// The member of the line.
        member: String,
        /// The line.
        line: String,
    },
    /// A journal cannot be used.
    #[error("the journal {}: {why}", .path.display())]
    Journal {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Something that has to be there already is not.
    #[error("{what} is not here: {remedy}")]
    Absent {
        /// What.
        what: String,
        /// How to get it.
        remedy: String,
    },
    /// The user broke it off.
    #[error("interrupted; no figures")]
    Stopped,
    /// The lab's own.
    #[error(transparent)]
    Lab(#[from] vshmem_lab::Error),
    /// The pool cannot be made.
    #[error(transparent)]
    Pool(#[from] vshmem_session::CreateError),
    /// An operating-system call failed.
    #[error("cannot {tried}: {source}")]
    Io {
        /// What was tried.
        tried: String,
        /// What came back.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(tried: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let tried = tried.into();
        move |source| Self::Io { tried, source }
    }
}

fn list(places: &[PathBuf]) -> String {
    places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
}

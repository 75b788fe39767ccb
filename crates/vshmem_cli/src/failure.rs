//! How a verb ends.

use std::process::ExitCode;

use vshmem_ipc::Errno;
use vshmem_session::{CreateError, FindError, SessionError};

/// An exit code, or why there is none.
pub type Outcome = Result<ExitCode, Failure>;

/// Why a verb did not do what it was asked. Each is a sentence: what was tried, what came back,
/// what to do.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The words of the command line do not go together.
    #[error("{0}")]
    Usage(String),
    /// The program to be run is not there: exit code 127, as env(1) has it.
    #[error("{0}")]
    NoProgram(String),
    /// The program to be run is there and cannot be run, or not on a pool: exit code 126.
    #[error("{0}")]
    NotRun(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
    /// The pool is not there.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The pool cannot be used.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The pool cannot be made or removed.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// There is no agent.
    #[error(transparent)]
    Agent(#[from] vshmem_agent::AgentError),
    /// The pool cannot be served.
    #[error(transparent)]
    Serve(#[from] vshmem_serve::ServeError),
    /// The pool of Xen's cannot be served.
    #[error(transparent)]
    ServeXen(#[from] vshmem_serve::XenServeError),
}

impl Failure {
    /// Writes it on standard error; the exit code that goes with it.
    pub fn tell(&self) -> ExitCode {
        eprintln!("vshmem: {}", without_numbers(&self.to_string()));
        match self {
            _ if self.is_usage() => ExitCode::from(2),
            Self::NoProgram(_) => ExitCode::from(127),
            Self::NotRun(_) => ExitCode::from(126),
            _ => ExitCode::FAILURE,
        }
    }

    /// Whether the words of the command line are wrong, whatever the machine is like.
    fn is_usage(&self) -> bool {
        use vshmem_session::CreateError::{Geometry, Limit, Name, Prepare};
        matches!(
            self,
            Self::Usage(_)
                | Self::Create(Name(_) | Limit(_) | Geometry { .. } | Prepare { .. })
                | Self::Serve(vshmem_serve::ServeError::Vectors(_))
        )
    }
}

/// A sentence without what Rust adds to the kernel's words, as in "(os error 2)".
fn without_numbers(sentence: &str) -> String {
    const BEFORE: &str = " (os error ";
    let mut pieces = sentence.split(BEFORE);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.split_once(')') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.push_str(rest);
            }
            _ => text.extend([BEFORE, piece]),
        }
    }
    text
}

/// A failure from its sentence.
pub fn failed<T>(sentence: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Failed(sentence.into()))
}

/// What it means when a pool's tables cannot be read.
pub fn unreadable(pool: &str) -> impl Fn(Errno) -> Failure {
    move |errno| {
        Failure::Failed(format!(
            "pool {pool}: its tables are corrupt ({errno}). `vshmem pool check {pool}` says more"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::without_numbers;

    #[test]
    fn the_kernels_words_stand_alone() {
        let said = "cannot read it: Permission denied (os error 13). Check the path (os error x)";
        let shown = "cannot read it: Permission denied. Check the path (os error x)";
        assert_eq!(without_numbers(said), shown);
    }
}

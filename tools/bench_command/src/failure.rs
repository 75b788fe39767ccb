//! How the verb ends.

use std::process::ExitCode;

/// An exit code, or why there is none.
pub type Outcome = Result<ExitCode, Failure>;

/// Why a measurement did not take place.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What every command may say.
    #[error(transparent)]
    Command(#[from] vshmem_cli::Failure),
    /// The measurement's own.
    #[error(transparent)]
    Bench(#[from] vshmem_bench::Error),
}

impl Failure {
    /// The words of the command line do not go together.
    pub fn usage(sentence: String) -> Self {
        vshmem_cli::Failure::Usage(sentence).into()
    }

    /// It was tried and failed.
    pub fn failed(sentence: String) -> Self {
        vshmem_cli::Failure::Failed(sentence).into()
    }
}

/// A failure from its sentence.
pub fn failed<T>(sentence: impl Into<String>) -> Result<T, Failure> {
    Ok(vshmem_cli::failed(sentence)?)
}

impl From<Failure> for vshmem_cli::Failure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Command(failure) => failure,
            Failure::Bench(error) => Self::Failed(error.to_string()),
        }
    }
}

impl From<vshmem_session::FindError> for Failure {
    fn from(error: vshmem_session::FindError) -> Self {
        Self::Command(error.into())
    }
}

impl From<vshmem_session::SessionError> for Failure {
    fn from(error: vshmem_session::SessionError) -> Self {
        Self::Command(error.into())
    }
}

//! How the verb ends.

use std::process::ExitCode;

/// An exit code, or why there is none.
pub type Outcome = Result<ExitCode, Failure>;

/// Why the lab did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What every command may say.
    #[error(transparent)]
    Command(#[from] vshmem_cli::Failure),
    /// The lab's own.
    #[error(transparent)]
    Lab(#[from] vshmem_lab::Error),
}

impl Failure {
    /// The words of the command line do not go together.
    pub fn usage(sentence: String) -> Self {
        vshmem_cli::Failure::Usage(sentence).into()
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
            Failure::Lab(error @ vshmem_lab::Error::Argument { .. }) => {
                Self::Usage(error.to_string())
            }
            Failure::Lab(error) => Self::Failed(error.to_string()),
        }
    }
}

impl From<vshmem_session::FindError> for Failure {
    fn from(error: vshmem_session::FindError) -> Self {
        Self::Command(error.into())
    }
}

impl From<vshmem_session::CreateError> for Failure {
    fn from(error: vshmem_session::CreateError) -> Self {
        Self::Command(error.into())
    }
}

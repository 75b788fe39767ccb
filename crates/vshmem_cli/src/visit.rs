//! Joining a pool for the length of a command.

use vshmem_ipc::Client;
use vshmem_link::Link;
use vshmem_session::Session;

use crate::failure::Failure;

/// A membership that ends with the command.
#[derive(Debug)]
pub struct Visit {
    session: Option<Session>,
}

impl Visit {
    /// Joins.
    pub fn join(link: Box<dyn Link>) -> Result<Self, Failure> {
        Ok(Self { session: Some(Session::join(link)?) })
    }

    /// Does something as a member, and leaves again.
    pub fn with<T>(mut self, work: impl FnOnce(&Client) -> T) -> Option<T> {
        let session = self.session.take()?;
        let result = work(session.client());
        self.session = Some(session);
        Some(result)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && let Err(errno) = session.leave()
        {
            // The domain's agent reaps what is left once this process has ended.
            tracing::debug!(%errno, "could not leave the pool");
        }
    }
}

//! Which agent is wanted: for which pool, and for how long.

use std::path::PathBuf;

use vshmem_link::Link;
use vshmem_session::find;

use crate::error::AgentError;

/// How long an agent stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// Until no program of this domain, and of those below it, uses the pool.
    WhileInUse,
    /// Until the pool is removed. An agent whose domain was evicted joins again.
    WhileThePoolExists,
}

/// An agent that is wanted.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// The pool's file or device.
    pub path: PathBuf,
    /// How long it stays.
    pub stay: Stay,
    /// The only user whose file may lie there. Where anybody may make files, a pool that was
    /// removed can be followed by another user's of the same name.
    pub owner: Option<u32>,
}

impl AgentOptions {
    /// The pool, if its file belongs to the user that it has to belong to.
    pub(crate) fn find(&self) -> Result<Box<dyn Link>, AgentError> {
        let link = find(&self.path.to_string_lossy())?;
        let Some(wanted) = self.owner else { return Ok(link) };
        // Of the open file: what lies at the path may be another one by now.
        match link.file().map(|file| file.owner) {
            Some(found) if found == wanted => Ok(link),
            Some(found) => Err(AgentError::Owner { path: self.path.clone(), found, wanted }),
            None => Err(AgentError::NoOwner { path: self.path.clone() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn only_a_file_of_the_user_named_is_the_pool() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let own = file.as_file().metadata().unwrap().uid();
        let find = |owner| {
            let path = file.path().to_owned();
            AgentOptions { path, stay: Stay::WhileThePoolExists, owner }.find()
        };
        assert!(find(None).is_ok() && find(Some(own)).is_ok());
        let refused = find(Some(own + 1)).err().map(|error| error.to_string());
        let refused = refused.unwrap_or_default();
        assert!(
            refused.contains(&format!("belongs to user {own}, and"))
                && refused.contains(&format!("a pool of user {}", own + 1)),
            "{refused}"
        );
    }
}

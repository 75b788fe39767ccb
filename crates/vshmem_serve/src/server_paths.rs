//! Where a server's sockets and record lie.

use std::path::{Path, PathBuf};

/// The paths of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPaths {
    /// Where QEMU connects.
    pub socket: PathBuf,
    /// Where processes of the host ask for notifications.
    pub control: PathBuf,
    /// What a restarted server has to know.
    pub record: PathBuf,
    /// Whether processes of the host look for `control` there.
    pub usual: bool,
}

impl ServerPaths {
    /// The usual paths for a pool: under /run/vshmem/serve.
    #[must_use]
    pub fn usual(pool: &str) -> Self {
        let control = vshmem_link::control_socket(pool);
        Self {
            socket: control.with_file_name(format!("{pool}.sock")),
            record: control.with_file_name(format!("{pool}.record")),
            control,
            usual: true,
        }
    }

    /// All beside a socket of the caller's choice.
    #[must_use]
    pub fn beside(socket: &Path) -> Self {
        let with = |suffix: &str| {
            let mut name = socket.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        Self {
            socket: socket.to_owned(),
            control: with(".control"),
            record: with(".record"),
            usual: false,
        }
    }

    /// The usual paths where this process can make them; else, with a socket of the caller's
    /// choice, beside that one.
    ///
    /// # Errors
    /// What making /run/vshmem/serve came back with, when there is no other place to go.
    pub fn choose(pool: &str, socket: Option<&Path>) -> std::io::Result<Self> {
        let mut paths = Self::usual(pool);
        let directory = paths.control.parent().unwrap_or(Path::new("/")).to_owned();
        let made = std::fs::create_dir_all(&directory).and_then(|()| {
            let probe = directory.join(format!(".{pool}.{}", std::process::id()));
            std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe))
        });
        match (made, socket) {
            (Ok(()), Some(socket)) => {
                paths.socket = socket.to_owned();
                Ok(paths)
            }
            (Ok(()), None) => Ok(paths),
            (Err(_), Some(socket)) => Ok(Self::beside(socket)),
            (Err(error), None) => Err(error),
        }
    }
}

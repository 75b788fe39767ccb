//! The operator's file: where this domain's agent listens for datagrams, and who its peers are.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use vshmem_link::Local;

/// Where such files are, in the order in which they are looked at: one for each pool.
pub const NOTIFY_DIRECTORIES: [&str; 2] = ["/etc/vshmem/notify.d", "/run/vshmem/notify.d"];
/// Bytes that a file may have.
const MOST_BYTES: u64 = 64 << 10;
/// As many as there can be other domains.
const MOST_PEERS: usize = 126;

/// What an operator has written down for one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifyConfig {
    /// The file.
    pub file: PathBuf,
    /// The pool's file or device on this machine.
    pub pool: Vec<PathBuf>,
    /// Where this domain's agent listens, as its peers know it.
    pub listen: SocketAddr,
    /// Where theirs do.
    pub peers: Vec<SocketAddr>,
}

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// It cannot be read.
    #[error("{}: cannot read it: {error}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What came back.
        error: std::io::Error,
    },
    /// Others than root and this user may have written it.
    #[error(
        "{0}: it is not used, because {why}. `chown root {0} && chmod go-w {0}` makes it trusted", file.display()
    )]
    Untrusted {
        /// The file.
        file: PathBuf,
        /// Who.
        why: String,
    },
    /// A line of it is invalid.
    #[error("{}, line {line}: {what}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// Its number, from 1.
        line: usize,
        /// What is wrong, and what is expected.
        what: String,
    },
    /// Something is missing.
    #[error("{}: {what}", file.display())]
    Incomplete {
        /// The file.
        file: PathBuf,
        /// What is to be added.
        what: &'static str,
    },
    /// Its address cannot be listened at.
    #[error("{}: cannot listen at {address}: {error}", file.display())]
    Bind {
        /// The file.
        file: PathBuf,
        /// The address.
        address: SocketAddr,
        /// What came back.
        error: std::io::Error,
    },
}

impl NotifyConfig {
    /// What the operator says of the pool at a place. Nothing that lies in the pool takes part in
    /// this.
    ///
    /// # Errors
    /// Says what is wrong with a file that means the pool, or may.
    pub fn of(pool: &Path) -> Result<Option<Self>, NotifyError> {
        Self::in_directories(&NOTIFY_DIRECTORIES.map(Path::new), pool)
    }

    /// All files that there are.
    #[must_use]
    pub fn all() -> Vec<Result<Self, NotifyError>> {
        NOTIFY_DIRECTORIES
            .iter()
            .flat_map(|directory| files(Path::new(directory)))
            .map(|file| Self::read(&file))
            .collect()
    }

    fn in_directories(directories: &[&Path], pool: &Path) -> Result<Option<Self>, NotifyError> {
        let mut broken = None;
        for file in directories.iter().flat_map(|directory| files(directory)) {
            match Self::read(&file) {
                Ok(config) if config.pool.iter().any(|path| path == pool) => {
                    return Ok(Some(config));
                }
                Ok(_) => {}
                Err(error) => broken = broken.or(Some(error)),
            }
        }
        broken.map_or(Ok(None), Err)
    }

    fn read(file: &Path) -> Result<Self, NotifyError> {
        let cannot = |error| NotifyError::Unreadable { file: file.to_owned(), error };
        // A pipe or a device in its place must not block.
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let opened = File::options().read(true).custom_flags(flags).open(file).map_err(cannot)?;
        let meta = opened.metadata().map_err(cannot)?;
        let me = rustix::process::geteuid().as_raw();
        let untrusted = |why| NotifyError::Untrusted { file: file.to_owned(), why };
        if !meta.is_file() {
            return Err(untrusted("it is no regular file".to_owned()));
        }
        if ![0, me].contains(&meta.uid()) {
            return Err(untrusted(format!("it belongs to user {}", meta.uid())));
        }
        if meta.mode() & 0o022 != 0 {
            return Err(untrusted(format!(
                "others may write to it (its mode is {:04o})",
                meta.mode() & 0o777
            )));
        }
        let mut text = String::new();
        opened.take(MOST_BYTES).read_to_string(&mut text).map_err(cannot)?;
        Self::parse(file, &text)
    }

    fn parse(file: &Path, text: &str) -> Result<Self, NotifyError> {
        let (mut pool, mut listen, mut peers) = (Vec::new(), None, Vec::new());
        for (number, line) in text.lines().enumerate() {
            let wrong = |what| NotifyError::Line { file: file.to_owned(), line: number + 1, what };
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(keyword) = words.next() else { continue };
            let Some(value) = words.next() else {
                return Err(wrong(format!("{keyword:?} needs a value. {GRAMMAR}")));
            };
            if let Some(more) = words.next() {
                return Err(wrong(format!("{more:?} is one word too many. {GRAMMAR}")));
            }
            match keyword {
                "device" if !value.starts_with('/') => {
                    return Err(wrong(format!(
                        "{value:?} is no path. `vshmem pool ls` shows a pool's as its place, as in `device /dev/mmapper`"
                    )));
                }
                "device" => pool.push(PathBuf::from(value)),
                "listen" if listen.is_some() => {
                    return Err(wrong(
                        "there is a `listen` already: an agent has one address".into(),
                    ));
                }
                "listen" => listen = Some(address(value).map_err(wrong)?),
                "peer" if peers.len() == MOST_PEERS => {
                    return Err(wrong(format!("there are more than {MOST_PEERS} peers")));
                }
                "peer" => peers.push(address(value).map_err(wrong)?),
                other => return Err(wrong(format!("{other:?} means nothing here. {GRAMMAR}"))),
            }
        }
        let incomplete = |what| NotifyError::Incomplete { file: file.to_owned(), what };
        let listen = listen.ok_or_else(|| {
            incomplete("it does not say where this machine's agent listens. Add a line as `listen 10.0.0.1:7117`")
        })?;
        // The agent's own line may stand among its peers, so that one list serves all machines.
        peers.retain(|peer| *peer != listen);
        if peers.is_empty() {
            return Err(incomplete(
                "it names no peer. Add a line as `peer 10.0.0.2:7117` for each other machine",
            ));
        }
        if pool.is_empty() {
            let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
            pool.extend([false, true].map(|huge| Local::path_of(name, huge)));
        }
        Ok(Self { file: file.to_owned(), pool, listen, peers })
    }
}

const GRAMMAR: &str =
    "A line is `device /dev/mmapper`, `listen ADDRESS:PORT` or `peer ADDRESS:PORT`";

/// An address at which a datagram can arrive, with its port.
fn address(value: &str) -> Result<SocketAddr, String> {
    if value.starts_with("vsock:") {
        return Err(format!(
            "{value:?}: Linux has no datagrams over virtio's vsock. Use an address of UDP, as in 10.0.0.1:7117"
        ));
    }
    let parsed: SocketAddr = value.parse().map_err(|_| {
        format!(
            "{value:?} is no address with a port. Write numbers, as in 10.0.0.1:7117 or [fd00::1]:7117: names are not looked up"
        )
    })?;
    if parsed.ip().is_unspecified() || parsed.ip().is_multicast() {
        return Err(format!(
            "{value:?} is not one machine's address. Write the one by which its peers reach it"
        ));
    }
    if let std::net::IpAddr::V4(v4) = parsed.ip()
        && v4.is_broadcast()
    {
        return Err(format!(
            "{value:?} is not one machine's address. Write the one by which its peers reach it"
        ));
    }
    if parsed.port() == 0 {
        return Err(format!(
            "{value:?} has no port. Write one from 1 to 65535, as in {}:7117",
            parsed.ip()
        ));
    }
    Ok(parsed)
}

/// The files of a directory by name; none when it is not there. Hidden ones, and those that editors
/// leave, are none.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or(".");
            !name.starts_with('.') && !name.ends_with('~')
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn parse(text: &str) -> Result<NotifyConfig, String> {
        NotifyConfig::parse(Path::new("/etc/vshmem/notify.d/job7"), text)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_names_the_pool_the_own_address_and_the_peers() {
        let config = parse(
            "# all machines\n\n device /dev/mmapper  # the guest's\nlisten 10.0.0.1:7117\npeer 10.0.0.2:7117\npeer [fd00::3]:9\n",
        )
        .unwrap();
        assert_eq!(config.pool, [Path::new("/dev/mmapper")]);
        assert_eq!(config.listen, "10.0.0.1:7117".parse().unwrap());
        let peers: Vec<SocketAddr> =
            ["10.0.0.2:7117", "[fd00::3]:9"].map(|one| one.parse().unwrap()).to_vec();
        assert_eq!(config.peers, peers);
    }

    #[test]
    fn without_a_device_the_name_of_the_file_is_that_of_a_pool_of_this_machine() {
        let config = parse("listen 10.0.0.1:1\npeer 10.0.0.1:1\npeer 10.0.0.2:1\n").unwrap();
        assert_eq!(config.pool[0], Path::new("/dev/shm/vshmem.job7"));
        assert_eq!(config.peers.len(), 1, "its own line among the peers is left out");
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_line_and_the_remedy() {
        for (text, words) in [
            ("listen", vec!["job7, line 1", "\"listen\" needs a value", "listen ADDRESS:PORT"]),
            ("\nport 7117", vec!["line 2", "\"port\" means nothing here"]),
            ("listen 10.0.0.1:1 10.0.0.2:1", vec!["one word too many"]),
            ("listen somewhere:1", vec!["no address with a port", "names are not looked up"]),
            ("listen 10.0.0.1", vec!["no address with a port", "10.0.0.1:7117"]),
            ("listen 0.0.0.0:1", vec!["not one machine's address"]),
            ("peer 255.255.255.255:1", vec!["not one machine's address"]),
            ("peer 224.0.0.1:1", vec!["not one machine's address"]),
            ("peer 10.0.0.1:0", vec!["has no port"]),
            ("peer vsock:3:7117", vec!["no datagrams over virtio's vsock", "UDP"]),
            ("device mmapper", vec!["\"mmapper\" is no path", "vshmem pool ls"]),
            ("listen 10.0.0.1:1\nlisten 10.0.0.1:2", vec!["line 2", "already"]),
            ("peer 10.0.0.2:1", vec!["does not say where", "listen 10.0.0.1:7117"]),
            ("listen 10.0.0.1:1", vec!["names no peer", "peer 10.0.0.2:7117"]),
        ] {
            let error = parse(text).unwrap_err();
            for word in words {
                assert!(error.contains(word), "{text:?}: {error}");
            }
        }
    }

    fn written(directory: &Path, name: &str, text: &str, mode: u32) {
        let file = directory.join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    const SOUND: &str = "device /dev/one\nlisten 10.0.0.1:1\npeer 10.0.0.2:1\n";

    #[test]
    fn the_file_of_a_pool_is_found_by_the_pools_place() {
        let (etc, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let both = [etc.path(), run.path()];
        let of = |path: &str| NotifyConfig::in_directories(&both, Path::new(path));
        assert!(of("/dev/one").unwrap().is_none());
        written(run.path(), "one", SOUND, 0o644);
        written(run.path(), "two", "listen 10.0.0.1:2\npeer 10.0.0.2:2\n", 0o644);
        assert_eq!(of("/dev/one").unwrap().unwrap().listen.port(), 1);
        assert_eq!(of("/dev/shm/vshmem.two").unwrap().unwrap().listen.port(), 2);
        assert!(of("/dev/three").unwrap().is_none());
        // The operator's own directory comes first.
        written(etc.path(), "one", &SOUND.replace(":1", ":3"), 0o644);
        assert_eq!(of("/dev/one").unwrap().unwrap().listen.port(), 3);
    }

    #[test]
    fn a_file_that_others_may_have_written_is_refused() {
        let etc = tempfile::tempdir().unwrap();
        let of = || NotifyConfig::in_directories(&[etc.path()], Path::new("/dev/one"));
        for mode in [0o666, 0o664, 0o646] {
            written(etc.path(), "one", SOUND, mode);
            let error = of().unwrap_err().to_string();
            assert!(
                error.contains("others may write to it") && error.contains("chmod go-w"),
                "{error}"
            );
        }
        if rustix::process::geteuid().is_root() {
            written(etc.path(), "one", SOUND, 0o644);
            std::os::unix::fs::chown(etc.path().join("one"), Some(12345), None).unwrap();
            let error = of().unwrap_err().to_string();
            assert!(error.contains("belongs to user 12345"), "{error}");
        }
    }

    #[test]
    fn another_pools_broken_file_is_not_in_the_way() {
        let etc = tempfile::tempdir().unwrap();
        written(etc.path(), "a", "nonsense", 0o644);
        written(etc.path(), "one", SOUND, 0o644);
        let of = |path: &str| NotifyConfig::in_directories(&[etc.path()], Path::new(path));
        assert!(of("/dev/one").unwrap().is_some());
        assert!(of("/dev/two").is_err(), "it may be meant");
    }
}

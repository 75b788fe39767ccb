//! Why a pool cannot be served.

use std::path::PathBuf;

use rustix::io::Errno;
use vshmem_session::SessionError;

use crate::doorbell::MOST_VECTORS;

/// Why a pool cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It is not a file of this host.
    #[error(
        "pool {name}: {} is a device of this guest; only the host can serve the pool behind it", path.display()
    )]
    NotOurs {
        /// The pool.
        name: String,
        /// Its device.
        path: PathBuf,
    },
    /// It is one for device-dax.
    #[error(
        "pool {name}: it was made with --dax, so a label lies in front of it, which ivshmem guests would read as the beginning of the pool. Attach it as an nvdimm (`vshmem pool show {name} --as qemu`), or create one without --dax"
    )]
    Labelled {
        /// The pool.
        name: String,
    },
    /// A PCI device cannot show it.
    #[error(
        "pool {name}: its file has {bytes} bytes, and a PCI device can only show a power of two. Create it again with a --size such as {}M", bytes.next_power_of_two() >> 20
    )]
    Size {
        /// The pool.
        name: String,
        /// Bytes.
        bytes: u64,
    },
    /// There is a server already.
    #[error(
        "pool {name}: it has a server already, and can have one only. End that one first, or use its socket: `vshmem pool show {name} --as qemu`"
    )]
    Taken {
        /// The pool.
        name: String,
    },
    /// Too many vectors, or none.
    #[error("--vectors {0}: a guest has from 1 to {MOST_VECTORS}")]
    Vectors(u32),
    /// There is no room for the sockets.
    #[error(
        "pool {name}: cannot make files in /run/vshmem/serve: {error}. Run this as root, or choose a place of your own, as in `vshmem pool serve {name} --socket /tmp/{name}.sock`"
    )]
    NoPlace {
        /// The pool.
        name: String,
        /// What came back.
        error: std::io::Error,
    },
    /// A socket cannot be made.
    #[error("pool {name}: cannot listen at {}: {why}. Choose another place, as in `vshmem pool serve {name} --socket /run/vshmem/{name}.sock`", path.display())]
    Listen {
        /// The pool.
        name: String,
        /// The socket.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Something of the kernel's.
    #[error("pool {name}: cannot {tried}: {error}")]
    Failed {
        /// The pool.
        name: String,
        /// What was tried.
        tried: &'static str,
        /// What came back.
        error: std::io::Error,
    },
    /// The pool cannot be joined.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The pool's tables are corrupt.
    #[error("pool {name}: its tables are corrupt ({errno}). `vshmem pool check {name}` says more")]
    Unreadable {
        /// The pool.
        name: String,
        /// What came back.
        errno: Errno,
    },
}

//! What the kernel knows of the process at the other end of a socket, beyond SO_PEERCRED.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// Further groups of the process that connected, as they were then (SO_PEERGROUPS). Its pid does
/// not tell: by the time that it is looked up it may be another's.
///
/// # Errors
/// What getsockopt(2) says.
pub fn peer_groups(socket: BorrowedFd<'_>) -> Result<Vec<u32>, Errno> {
    /// NGROUPS_MAX.
    const MOST: usize = 65_536;
    let mut groups = vec![0u32; 64];
    loop {
        let mut bytes = size_of_val(&groups[..]) as libc::socklen_t;
        // SAFETY: the kernel writes at most `bytes` bytes to `groups`, which has as many.
        let got = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = bytes as usize / size_of::<u32>();
        if got == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = std::io::Error::last_os_error();
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        // Then `bytes` says how many there would be.
        if errno != Errno::RANGE || count <= groups.len() || count > MOST {
            return Err(errno);
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_groups_of_the_other_end_are_its_own() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut own: Vec<u32> =
            rustix::process::getgroups().unwrap().iter().map(|group| group.as_raw()).collect();
        let mut groups = peer_groups(near.as_fd()).unwrap();
        own.sort_unstable();
        groups.sort_unstable();
        assert_eq!(groups, own);
        assert_eq!(peer_groups(std::fs::File::open("/").unwrap().as_fd()), Err(Errno::NOTSOCK));
    }
}

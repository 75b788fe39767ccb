//! Making and ending domains: the hypervisor's domctl, whose structures change with its releases.
//!
//! Each release numbers its interface and refuses all others, so nothing can be misunderstood.
//! Those of `RELEASES` have what is used here in the same places (public/domctl.h).

use rustix::io::Errno;

use super::hypercall::{Call, Hypervisor, LIST_WORDS};

/// Releases that this has run on, and their versions of the interface.
const RELEASES: [((u32, u32), u32); 2] = [((4, 17), 0x15), ((4, 20), 0x17)];
/// Bytes in front of a request's own structure, and of the whole.
const HEAD: usize = 16;
const WHOLE: usize = HEAD + 128;
/// Operations.
const CREATE: u32 = 1;
const DESTROY: u32 = 2;
const INFO: u32 = 5;
const MAX_MEMORY: u32 = 11;
/// Any id that is free.
const ANY: u16 = 0;
/// `getdomaininfo`'s flags.
const DYING: u32 = 1;
const SHUT_DOWN: u32 = 1 << 2;
/// Reason of a shutdown that comes back.
const SUSPENDED: u32 = 2;

/// What has become of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vital {
    /// It is there, maybe paused.
    Alive,
    /// It will never run again.
    Dead,
}

/// A request, field by field.
#[derive(Debug)]
struct Request([u8; WHOLE]);

impl Request {
    fn new(operation: u32, domid: u16) -> Self {
        let mut request = Self([0; WHOLE]);
        request.put(0, operation);
        request.0[8..10].copy_from_slice(&domid.to_ne_bytes());
        request
    }

    fn put(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn put_long(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }

    fn get(&self, at: usize) -> u32 {
        u32::from_ne_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    fn domid(&self) -> u16 {
        u16::from_ne_bytes([self.0[8], self.0[9]])
    }

    /// `createdomain`: one CPU that never starts, grants of version 1.
    fn create(handle: &[u8; 16], grant_frames: u32) -> Self {
        let mut request = Self::new(CREATE, ANY);
        request.0[HEAD + 4..HEAD + 20].copy_from_slice(handle);
        request.put(HEAD + 28, 1); // max_vcpus
        request.put(HEAD + 32, 1023); // max_evtchn_port
        request.put(HEAD + 36, grant_frames);
        request.put(HEAD + 40, 1); // max_maptrack_frames: it maps nothing
        request.put(HEAD + 44, 1); // grant_opts: version
        request
    }

    fn ask(&mut self, hypervisor: &Hypervisor) -> Result<i32, Errno> {
        self.put(4, version_of(release(hypervisor)?).ok_or(Errno::ACCESS)?);
        hypervisor.with_structure(Call::DomainControl, None, &mut self.0, 0)
    }
}

/// The hypervisor's release.
pub fn release(hypervisor: &Hypervisor) -> Result<(u32, u32), Errno> {
    let version = hypervisor.call(Call::Version, [0; 5])?.unsigned_abs();
    Ok((version >> 16, version & 0xffff))
}

fn version_of(release: (u32, u32)) -> Option<u32> {
    RELEASES.iter().find(|(known, _)| *known == release).map(|(_, version)| *version)
}

/// Whether domains of a release can be made.
pub fn is_known(release: (u32, u32)) -> bool {
    version_of(release).is_some()
}

/// The releases whose domains can be made.
pub fn known_releases() -> String {
    RELEASES.map(|((major, minor), _)| format!("{major}.{minor}")).join(" and ")
}

/// Makes a domain that has nothing yet.
///
/// # Errors
/// What the hypervisor says: EACCES when it is of another release.
pub fn create(hypervisor: &Hypervisor, handle: &[u8; 16], grant_frames: u32) -> Result<u16, Errno> {
    let mut request = Request::create(handle, grant_frames);
    request.ask(hypervisor)?;
    Ok(request.domid())
}

/// Says how many pages a domain may have.
pub fn allow_pages(hypervisor: &Hypervisor, domid: u16, pages: u32) -> Result<(), Errno> {
    let mut request = Request::new(MAX_MEMORY, domid);
    request.put_long(HEAD, u64::from(pages) * 4);
    request.ask(hypervisor).map(drop)
}

/// Ends a domain. Pages that a domain has mapped stay until they are unmapped.
pub fn destroy(hypervisor: &Hypervisor, domid: u16) -> Result<(), Errno> {
    loop {
        match Request::new(DESTROY, domid).ask(hypervisor) {
            // It takes a while, and wants to be asked again.
            Err(Errno::AGAIN | Errno::INTR) => {}
            // ERESTART has no name for user space.
            Err(errno) if errno.raw_os_error() == 85 => {}
            Err(Errno::SRCH) => return Ok(()),
            other => return other.map(drop),
        }
    }
}

/// Whether a domain is there.
pub fn vital(hypervisor: &Hypervisor, domid: u16) -> Result<Vital, Errno> {
    let mut request = Request::new(INFO, domid);
    match request.ask(hypervisor) {
        Ok(_) => {}
        Err(Errno::SRCH) => return Ok(Vital::Dead),
        Err(errno) => return Err(errno),
    }
    // Asked for one that is not there, it tells of the next.
    let found = u16::from_ne_bytes([request.0[HEAD], request.0[HEAD + 1]]);
    let flags = request.get(HEAD + 4);
    let ended = flags & DYING != 0 || (flags & SHUT_DOWN != 0 && flags >> 16 & 0xff != SUSPENDED);
    Ok(if found != domid || ended { Vital::Dead } else { Vital::Alive })
}

/// Gives a domain pages of its own; calls `each` with the frame of every one.
///
/// # Errors
/// ENOMEM when the hypervisor has no more.
pub fn populate(
    hypervisor: &Hypervisor,
    domid: u16,
    pages: u32,
    frames: &mut Vec<u64>,
) -> Result<(), Errno> {
    const POPULATE: u64 = 6;
    while frames.len() < pages as usize {
        let done = frames.len();
        let count = (pages as usize - done).min(LIST_WORDS);
        for nth in 0..count {
            hypervisor.set_list(nth, (done + nth) as u64)?;
        }
        // struct xen_memory_reservation: list, count, order, flags, domain.
        let mut bytes = [0u8; 32];
        bytes[..8].copy_from_slice(&hypervisor.list_address().to_ne_bytes());
        bytes[8..16].copy_from_slice(&(count as u64).to_ne_bytes());
        bytes[24..26].copy_from_slice(&domid.to_ne_bytes());
        let given =
            hypervisor.with_structure(Call::Memory, Some(POPULATE), &mut bytes, 0)?.unsigned_abs();
        for nth in 0..(given as usize).min(count) {
            frames.push(hypervisor.list(nth)?);
        }
        if (given as usize) < count {
            return Err(Errno::NOMEM);
        }
    }
    Ok(())
}

/// Frames that a grant table may have on this machine: what dom0's own may.
pub fn most_grant_frames(hypervisor: &Hypervisor) -> Result<u32, Errno> {
    const QUERY_SIZE: u64 = 6;
    const SELF: u16 = 0x7ff0;
    // struct gnttab_query_size: domain, frames, most, status.
    let mut bytes = [0u8; 16];
    bytes[..2].copy_from_slice(&SELF.to_ne_bytes());
    hypervisor.with_structure(Call::GrantTable, Some(QUERY_SIZE), &mut bytes, 1)?;
    match i16::from_ne_bytes([bytes[12], bytes[13]]) {
        0 => Ok(u32::from_ne_bytes([bytes[8], bytes[9], bytes[10], bytes[11]])),
        _ => Err(Errno::IO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_lie_as_xen_reads_them() {
        let request = Request::create(&[7; 16], 1024);
        assert_eq!((request.get(0), request.domid()), (1, 0));
        assert_eq!(request.get(HEAD), 0); // ssidref
        assert_eq!(request.0[HEAD + 4..HEAD + 20], [7; 16]);
        assert_eq!(request.get(HEAD + 20), 0); // flags: a PV domain
        assert_eq!(request.get(HEAD + 24), 0); // iommu_opts
        assert_eq!(request.get(HEAD + 36), 1024);
        // altp2m_opts of 4.20, and emulation_flags of both.
        assert_eq!(
            (request.get(HEAD + 48), request.get(HEAD + 56), request.get(HEAD + 60)),
            (0, 0, 0)
        );
    }
}

//! What tells this domain from others.

use std::io::Write;
use std::path::Path;

use rustix::fs::{Mode, OFlags, fstat, open, stat};
use rustix::io::Errno;
use vshmem_mem::not_copied;

use crate::process::process_start;

/// What tells this domain from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainFacts {
    /// Boot id of the kernel.
    pub boot_id: [u8; 16],
    /// Inode of the PID namespace.
    pub pid_namespace: u32,
    /// Start time of the init of the PID namespace, as of any process; 0 when unknown, and in the
    /// initial namespace, whose inode is not given again.
    pub born: u64,
    /// Name for people.
    pub name: String,
    /// Whether the name was given by the operator of the domain.
    pub named: bool,
}

impl DomainFacts {
    /// The boot id as a pool's tables have it.
    #[must_use]
    pub fn boot_words(&self) -> [u32; 4] {
        std::array::from_fn(|i| {
            u32::from_ne_bytes(std::array::from_fn(|j| self.boot_id[4 * i + j]))
        })
    }
}

/// Written by the operator of the domain: its name.
const NAME_FILE: &str = "/run/vshmem/domain";
/// Written by the agent of a machine of which there are copies: 16 bytes that no other copy has. It
/// goes with the boot, as the boot id does.
const APART_FILE: &str = "/run/vshmem/apart";
/// Inode of the initial PID namespace (include/linux/proc_ns.h).
pub(crate) const INITIAL_PID_NAMESPACE: u32 = 0xEFFF_FFFC;

/// Why a domain cannot be distinguished from others.
/// This PID namespace cannot be distinguished from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot tell this PID namespace from others: {path}: {errno}. `mount -t proc proc /proc` makes it readable here"
)]
pub struct Anonymous {
    /// What was to be read.
    pub path: &'static str,
    /// What came back.
    pub errno: Errno,
}

/// Reads the facts.
///
/// # Errors
/// When /proc does not show them: two domains that show nothing would be taken for one.
pub fn domain_facts() -> Result<DomainFacts, Anonymous> {
    let (mut boot_id, pid_namespace) = (boot_id()?, pid_namespace()?);
    let initial = pid_namespace == INITIAL_PID_NAMESPACE || pid_namespace == 0;
    let given = read_line(NAME_FILE).map(|name| name.trim().to_owned());
    let (mut name, mut named) = match given.ok().filter(|name| !name.is_empty()) {
        Some(name) => (name, true),
        None => {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            if initial { (host, false) } else { (format!("{host}:{pid_namespace}"), false) }
        }
    };
    if let Some(apart) = apart() {
        boot_id.iter_mut().zip(apart).for_each(|(byte, other)| *byte ^= other);
        // All copies were given one name: it tells nothing now.
        (name, named) = (format!("{}~{:02x}{:02x}", cut(&name, 26), apart[0], apart[1]), false);
    }
    let born = if initial { 0 } else { process_start(1) };
    Ok(DomainFacts { boot_id, pid_namespace, born, name: cut(&name, 31), named })
}

/// What distinguishes this machine from its copies, once it is known that there are some. Of a file
/// that others than root may write nothing is believed.
fn apart() -> Option<[u8; 16]> {
    let file = open(APART_FILE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let about = fstat(&file).ok()?;
    let mut bytes = [0; 16];
    let is_roots = about.st_uid == 0 && about.st_mode & 0o022 == 0;
    (is_roots && rustix::io::read(&file, &mut bytes).ok()? == bytes.len()).then_some(bytes)
}

/// There are copies of this machine, and each is a domain of its own from now on: for root alone.
/// Processes that joined before remain in the domain that they joined.
///
/// # Errors
/// When the file cannot be written that says so.
pub fn go_apart() -> std::io::Result<()> {
    let folder = Path::new(APART_FILE).parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)?;
    let new = folder.join(format!(".apart-{}", std::process::id()));
    let mut file = std::fs::File::create(&new)?;
    let words = [not_copied(), not_copied()].map(u64::to_ne_bytes);
    file.write_all(words.as_flattened())?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644))?;
    std::fs::rename(&new, APART_FILE)
}

fn boot_id() -> Result<[u8; 16], Anonymous> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    let text = read_line(PATH).map_err(|errno| Anonymous { path: PATH, errno })?;
    let digits: Vec<u8> =
        text.bytes().filter_map(|c| (c as char).to_digit(16)).map(|d| d as u8).collect();
    if digits.len() != 32 {
        return Err(Anonymous { path: PATH, errno: Errno::INVAL });
    }
    let mut boot_id = [0; 16];
    for (byte, pair) in boot_id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Ok(boot_id)
}

/// Inode of this process's PID namespace; 0 on a kernel without them. /proc may be that of an outer
/// one: what it shows of this process is right all the same.
pub(crate) fn pid_namespace() -> Result<u32, Anonymous> {
    match stat("/proc/self/ns/pid") {
        Ok(namespace) => Ok(namespace.st_ino as u32),
        Err(Errno::NOENT) if stat("/proc/self/stat").is_ok() => Ok(0),
        Err(errno) => Err(Anonymous { path: "/proc/self/ns/pid", errno }),
    }
}

/// Reads a short file by system calls alone. A program may have replaced libc's `stat` by one that
/// itself makes System V calls (fakeroot), and this runs while the first such call is answered.
fn read_line(path: &str) -> Result<String, Errno> {
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = [0u8; 256];
    let length = rustix::io::read(&file, &mut bytes)?;
    String::from_utf8(bytes[..length].to_vec()).map_err(|_| Errno::ILSEQ)
}

fn cut(name: &str, bytes: usize) -> String {
    let mut end = name.len().min(bytes);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_has_a_boot_id_and_a_name() {
        let facts = domain_facts().unwrap();
        assert_ne!(facts.boot_id, [0; 16]);
        assert!(!facts.name.is_empty());
    }
}

//! What to do where a pool cannot be made: commands that this machine can carry out.

use std::path::Path;

use rustix::fs::{statfs, statvfs};
use vshmem_wire::{Geometry, GeometryError};

use super::huge_pages::HugePages;
use crate::memory::{Memory, spelled};
use crate::quoted::quoted;

/// linux/magic.h's TMPFS_MAGIC.
const TMPFS: u64 = 0x0102_1994;
/// A pool that is smaller is not proposed.
const LEAST: u64 = 16 << 20;

/// The file system of a pool's file.
#[derive(Debug, Clone, Copy)]
struct FileSystem {
    is_tmpfs: bool,
    used: u64,
    free: u64,
}

impl FileSystem {
    fn of(directory: &Path) -> Option<Self> {
        let (kind, room) = (statfs(directory).ok()?.f_type, statvfs(directory).ok()?);
        Some(Self {
            is_tmpfs: kind as u64 & 0xffff_ffff == TMPFS,
            used: room.f_blocks.saturating_sub(room.f_bfree) * room.f_frsize,
            free: room.f_bavail * room.f_frsize,
        })
    }
}

/// Where a pool's file could not be backed.
pub fn room(name: &str, bytes: u64, path: &Path) -> String {
    let directory = path.parent().unwrap_or(path);
    let file_system = FileSystem::of(directory);
    room_in(name, bytes, &directory.to_string_lossy(), file_system, Memory::now())
}

fn room_in(
    name: &str,
    bytes: u64,
    directory: &str,
    file_system: Option<FileSystem>,
    memory: Memory,
) -> String {
    const REMOVE: &str = "remove pools that nobody needs (`vshmem pool ls`)";
    let free = file_system.map_or(u64::MAX, |one| one.free);
    let most = memory.to_give().min(free);
    // More than the file system has, and not more than the machine.
    if let Some(tmpfs) = file_system.filter(|one| one.is_tmpfs)
        && (tmpfs.free..=memory.to_give()).contains(&bytes)
    {
        let mib = ((tmpfs.used + bytes) >> 20) + 1;
        let place = quoted(directory);
        return format!(
            "Take a smaller --size, {REMOVE}, or enlarge the file system, as root: `mount -o remount,size={mib}M {place}`"
        );
    }
    let (available, total) = (memory.available >> 20, memory.total >> 20);
    let found = format!("Of this machine's {total} MiB of memory {available} are free");
    if most < LEAST {
        return format!(
            "{found}, and {} at {directory}: first {REMOVE}",
            spelled(free >> 20 << 20)
        );
    }
    let size = spelled(most.min(bytes - 1) >> 20 << 20);
    format!("{found}: `vshmem pool create {name} --size {size}` takes less, or {REMOVE}")
}

/// Where huge pages are missing.
pub fn huge_pages(
    name: &str,
    bytes: u64,
    page: u64,
    node: Option<u32>,
    found: &HugePages,
    memory: Memory,
) -> String {
    let needed = bytes.div_ceil(page);
    let on_node = node.map(|node| format!(" on node {node}")).unwrap_or_default();
    let size = if page >= 1 << 30 { "1G" } else { "2M" };
    let free = found.free;
    let finding = format!(
        "pool {name}: it takes {needed} huge pages of {size}{on_node}, and {free} are free."
    );
    let missing = needed.saturating_sub(free).saturating_mul(page);
    if missing > memory.to_give() {
        let (available, total) = (memory.available >> 20, memory.total >> 20);
        let less = memory.pool_size();
        return format!(
            "{finding} The missing ones cannot be reserved: of this machine's {total} MiB of memory {available} are free. `vshmem pool create {name} --size {less}` takes less, of pages of the usual size"
        );
    }
    let (reserve, undo) = found.commands(needed);
    format!(
        "{finding} Reserve the missing ones with `{reserve}`. To undo that, once the pool is removed: `{undo}`"
    )
}

/// A command that asks for almost the same as the refused one, and works.
pub fn possible(name: &str, bytes: u64, error: &GeometryError) -> String {
    let GeometryError::Count { name: limit, value, least, most } = error else {
        return "Take smaller limits".into();
    };
    let nearest = *if value < least { least } else { most };
    if *limit == "size" {
        let mib = nearest.div_ceil(1 << 20);
        return format!("The nearest with these limits: `vshmem pool create {name} --size {mib}M`");
    }
    let size = spelled(size_with(bytes, limit, nearest).unwrap_or(bytes));
    format!("The nearest: `vshmem pool create {name} --size {size} --limit {limit}={nearest}`")
}

/// A size from this one on that has room for such a limit. The other limits grow with it, so it is
/// looked for in steps.
fn size_with(mut bytes: u64, limit: &str, value: u64) -> Option<u64> {
    for _ in 0..16 {
        let mut geometry = Geometry::for_size(bytes).ok()?;
        geometry.set(limit, value);
        match geometry.fit_pages(bytes) {
            Ok(()) => return Some(bytes),
            Err(GeometryError::Count { name: "size", least, .. }) if least > bytes => {
                bytes = least.next_multiple_of(1 << 20);
            }
            Err(_) => return None,
        }
    }
    None
}

/// The command again, with as much prepared as there is.
pub fn prepared(name: &str, bytes: u64, most: u64) -> String {
    let size = spelled(bytes);
    match most >> 20 {
        0 => format!("`vshmem pool create {name} --size {size}` prepares nothing"),
        mib => {
            format!("`vshmem pool create {name} --size {size} --prepare {mib}M` has room for it")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: Memory = Memory { total: 469 << 20, available: 400 << 20 };
    const HOST: Memory = Memory { total: 16 << 30, available: 12 << 30 };

    fn said(bytes: u64, file_system: FileSystem, memory: Memory) -> String {
        room_in("p", bytes, "/dev/shm", Some(file_system), memory)
    }

    #[test]
    fn a_file_system_grows_only_as_far_as_there_is_memory() {
        let half = FileSystem { is_tmpfs: true, used: 34 << 20, free: 200 << 20 };
        let grown = said(300 << 20, half, GUEST);
        assert!(grown.contains("`mount -o remount,size=335M /dev/shm`"), "{grown}");
        let kept = said(600 << 20, half, GUEST);
        assert!(!kept.contains("remount"), "{kept}");
        assert!(kept.contains("469 MiB of memory 400 are free"), "{kept}");
        assert!(kept.contains("`vshmem pool create p --size 200M`"), "{kept}");
        assert!(said(600 << 20, half, HOST).contains("remount,size=635M"), "a host has it");
    }

    #[test]
    fn what_is_no_tmpfs_is_not_enlarged_and_no_pool_of_nothing_is_proposed() {
        let disk = FileSystem { is_tmpfs: false, used: 34 << 20, free: 100 << 20 };
        let smaller = said(300 << 20, disk, HOST);
        assert!(smaller.contains("`vshmem pool create p --size 100M`"), "{smaller}");
        let full = FileSystem { free: 1 << 20, ..disk };
        let none = said(300 << 20, full, HOST);
        assert!(none.contains("vshmem pool ls") && !none.contains("pool create"), "{none}");
        let short = Memory { available: 60 << 20, ..GUEST };
        let none = said(300 << 20, FileSystem { is_tmpfs: true, ..disk }, short);
        assert!(!none.contains("pool create") && !none.contains("remount"), "{none}");
    }

    #[test]
    fn huge_pages_are_reserved_only_where_there_is_memory_for_them() {
        let none = HugePages::read(2 << 20, Some(9999));
        let said = |memory| huge_pages("p", 1 << 30, 2 << 20, None, &none, memory);
        assert!(said(HOST).contains("`echo 512 > "), "{}", said(HOST));
        let less = said(GUEST);
        assert!(!less.contains("echo"), "{less}");
        assert!(less.contains("`vshmem pool create p --size 256M`"), "{less}");
    }

    #[test]
    fn a_nearest_limit_is_proposed_with_a_size_that_has_room_for_it() {
        for (bytes, limit, value) in [(8 << 20, "shmmni", 99_999), (64 << 20, "clients", 0)] {
            let mut geometry = Geometry::for_size(bytes).unwrap();
            geometry.set(limit, value);
            let error = geometry.fit_pages(bytes).unwrap_err();
            let text = possible("p", bytes, &error);

            let (_, size) = text.split_once("--size ").unwrap();
            let (mib, rest) = size.split_once("M --limit ").unwrap();
            let (again, value) = rest.trim_end_matches('`').split_once('=').unwrap();
            let bytes = mib.parse::<u64>().unwrap() << 20;
            let mut geometry = Geometry::for_size(bytes).unwrap();
            assert!(geometry.set(again, value.parse().unwrap()), "{text}");
            geometry.fit_pages(bytes).unwrap();
        }
    }
}

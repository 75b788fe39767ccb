//! How fast the memory of the pools is here, and in what pages it can lie.

use std::fs;

use vshmem_link::{Rates, measure_rates};
use vshmem_session::Memory;

use super::line::Line;
use crate::{choice, size};

/// A line for the pool that `vshmem run` takes, and for each that this machine has from outside.
/// `driver`: how the driver comes here.
pub fn speeds(driver: &str) -> Vec<Line> {
    let chosen = choice::choose(None)
        .ok()
        .and_then(|choice| choice.word())
        .and_then(|word| vshmem_session::find(&word).ok());
    let chosen = chosen.filter(|link| vshmem_session::identify(link.as_ref()).is_ok());
    let devices = vshmem_session::list_devices().into_iter().filter(|pool| pool.found.is_ok());
    let mut paths: Vec<_> = devices.map(|pool| pool.path).collect();
    if let Some(link) = chosen.filter(|link| !paths.iter().any(|path| path == link.path())) {
        paths.insert(0, link.path().to_owned());
    }
    paths
        .into_iter()
        .filter_map(|path| {
            let link = vshmem_link::open(&path).ok()?;
            let rates = measure_rates(link.as_ref()).ok()?;
            Some(speed(&path.display().to_string(), link.kind(), rates, driver))
        })
        .collect()
}

fn speed(path: &str, kind: &str, rates: Rates, driver: &str) -> Line {
    const WHAT: &str = "memory of a pool";
    let Rates { pool, private, pool_write, private_write } = rates;
    let found = format!(
        "{path}: reads {pool} MiB/s (private memory: {private}), locked stores {pool_write} MiB/s ({private_write})"
    );
    if !rates.is_suspicious() {
        return Line::good(WHAT, found);
    }
    let remedy = match kind {
        "ivshmem" => format!(
            "it is not cached. Load the driver, which maps it write-back: {driver}; place the device above 4 GiB (a pool of 1G or more, or QEMU's `-global q35-pcihost.pci-hole64-size=8G`); or use an nvdimm (`vshmem pool show NAME --as qemu --device dax`)"
        ),
        "dax" => "it is not cached, which an nvdimm of QEMU's always is. Is its file on memory? On the host: `df /dev/shm /dev/hugepages`".to_owned(),
        _ => "is its file on memory (`df /dev/shm /dev/hugepages`), and does the machine swap (`free -m`)?".to_owned(),
    };
    Line::bad(WHAT, found, remedy)
}

/// On which of the host's nodes this machine lies, where it has pools from outside or was told.
pub fn home_nodes() -> Option<Line> {
    const WHAT: &str = "this machine's memory node on its host (optional)";
    match vshmem_session::told_home_nodes() {
        Ok(Some(told)) => {
            let nodes: Vec<String> = told.nodes.iter().map(u32::to_string).collect();
            Some(Line::good(WHAT, format!("{} ({})", nodes.join(","), told.source)))
        }
        Ok(None) if vshmem_session::list_devices().is_empty() => None,
        Ok(None) => Some(Line::good(
            WHAT,
            "not known: segments of a pool with a range on each node lie on any",
        )),
        Err(error) => Some(Line::note(
            WHAT,
            error.to_string(),
            format!(
                "`vshmem plan` and {} say how a guest is told; without it segments lie on any node",
                vshmem_link::guide("plan.md")
            ),
        )),
    }
}

/// Huge pages that pools could be made of.
pub fn huge_pages() -> Line {
    const WHAT: &str = "huge pages (optional)";
    let mut found: Vec<(u64, u64, u64)> = fs::read_dir("/sys/kernel/mm/hugepages")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let count = |file: &str| -> Option<u64> {
                fs::read_to_string(entry.path().join(file)).ok()?.trim().parse().ok()
            };
            Some((kib << 10, count("free_hugepages")?, count("nr_hugepages")?))
        })
        .collect();
    found.sort_unstable();
    judge(WHAT, &found, Memory::now())
}

fn judge(what: &'static str, found: &[(u64, u64, u64)], memory: Memory) -> Line {
    const USUAL: u64 = 2 << 20;
    if found.is_empty() {
        return Line::good(what, "this kernel has none");
    }
    let text: Vec<String> = found
        .iter()
        .map(|(bytes, free, all)| format!("{free} of {all} free of {}", size::show(*bytes)))
        .collect();
    if found.iter().any(|(_, free, _)| *free > 0) {
        return Line::good(what, text.join(", "));
    }
    // What is reserved is no program's any more: half of what can be given, and 1 GiB, at most.
    let count = (memory.to_give() / 2 / USUAL).min(512);
    let Some((_, _, all)) = found.iter().find(|(bytes, ..)| *bytes == USUAL && count > 0) else {
        return Line::good(what, text.join(", "));
    };
    let remedy = format!(
        "for `vshmem pool create --hugepages 2M`: `echo {} >/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages`, and where nothing is mounted there `mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages`",
        all + count
    );
    Line::note(what, text.join(", "), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncached_memory_has_a_remedy_for_its_link() {
        let slow = Rates { pool: 12, private: 9000, pool_write: 12, private_write: 500 };
        let driver = "`modprobe vshmem`";
        let line = speed("/dev/vshmem/x", "ivshmem", slow, driver);
        assert!(!line.good && line.has_command());
        assert!(line.remedy.is_some_and(|remedy| remedy.contains(driver)));
        let fast = Rates { pool: 8000, pool_write: 400, ..slow };
        assert!(speed("/dev/vshmem/x", "ivshmem", fast, driver).good);
    }

    #[test]
    fn no_huge_pages_is_no_fault() {
        let large = Memory { total: 16 << 30, available: 8 << 30 };
        let small = Memory { total: 469 << 20, available: 200 << 20 };
        let judge = |found: &[(u64, u64, u64)], memory| judge("", found, memory);
        assert!(judge(&[], large).good && judge(&[], large).remedy.is_none());
        let none = judge(&[(2 << 20, 0, 0), (1 << 30, 0, 0)], large);
        assert!(none.good && none.has_command());
        assert!(none.remedy.is_some_and(|remedy| remedy.contains("`echo 512 >")));
        assert!(judge(&[(2 << 20, 3, 4)], large).remedy.is_none());
        // Those that others have stay theirs, and memory stays for programs.
        let some = judge(&[(2 << 20, 0, 40)], small).remedy.unwrap();
        assert!(some.contains("`echo 75 >"), "{some}");
        let full = Memory { available: 50 << 20, ..small };
        assert!(judge(&[(2 << 20, 0, 0)], full).remedy.is_none());
        assert!(judge(&[(1 << 30, 0, 0)], large).remedy.is_none(), "no pages of 2M here");
    }
}

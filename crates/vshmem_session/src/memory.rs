//! The memory of this machine: no command is proposed that takes more than there is.

use std::fs::read_to_string;

/// Bytes of memory, of the machine or of the container that this process runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// All there is.
    pub total: u64,
    /// What programs can have without swapping.
    pub available: u64,
}

/// The largest and the smallest size that is proposed for a pool.
const SIZES: std::ops::RangeInclusive<u64> = 16 << 20..=1 << 30;

impl Memory {
    /// As it is now.
    pub fn now() -> Self {
        let read = |path: &str| read_to_string(path).unwrap_or_default();
        let of_group = |file: &str| read(&format!("/sys/fs/cgroup/memory.{file}"));
        let of_machine = Self::of_machine(&read("/proc/meminfo"));
        of_machine.within(&of_group("max"), &of_group("current"), &of_group("stat"))
    }

    /// What is not known is no limit.
    fn of_machine(meminfo: &str) -> Self {
        let number = |name: &str| {
            let rest = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
            Some(rest.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
        };
        let total = number("MemTotal:").unwrap_or(u64::MAX);
        Self { total, available: number("MemAvailable:").unwrap_or(u64::MAX) }
    }

    /// The part of it that a control group allows. Pages of files that no process uses count as
    /// free.
    fn within(self, max: &str, current: &str, stat: &str) -> Self {
        let Ok(max) = max.trim().parse::<u64>() else { return self };
        let idle = stat.lines().find_map(|line| line.strip_prefix("inactive_file "));
        let idle: u64 = idle.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let used = current.trim().parse::<u64>().unwrap_or(0).saturating_sub(idle);
        let left = max.saturating_sub(used);
        Self { total: self.total.min(max), available: self.available.min(left) }
    }

    /// What of it a pool may take: an eighth of the whole stays for programs.
    pub fn to_give(self) -> u64 {
        self.available.saturating_sub(self.total / 8)
    }

    /// The size of a pool that is proposed here, as `--size` takes it: 1G where that can be.
    pub fn pool_size(self) -> String {
        let fits = self.to_give().clamp(*SIZES.start(), *SIZES.end());
        spelled(1 << fits.ilog2())
    }
}

/// A size as `--size` takes it.
pub fn spelled(bytes: u64) -> String {
    match [(30, "G"), (20, "M"), (10, "K")]
        .iter()
        .find(|(shift, _)| bytes.is_multiple_of(1 << shift))
    {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: &str = "MemTotal:         480256 kB\nMemFree: 1 kB\nMemAvailable:     409600 kB\n";

    #[test]
    fn a_pool_that_is_proposed_leaves_memory_for_programs() {
        let guest = Memory::of_machine(GUEST);
        assert_eq!((guest.total, guest.available), (480_256 << 10, 400 << 20));
        assert!(guest.to_give() < 400 << 20);
        assert_eq!(guest.pool_size(), "256M");
        assert_eq!(Memory { total: 16 << 30, available: 9 << 30 }.pool_size(), "1G");
        assert_eq!(Memory { total: 16 << 30, available: 1 << 30 }.pool_size(), "16M");
        assert_eq!(Memory::of_machine("").pool_size(), "1G");
    }

    #[test]
    fn a_container_has_what_its_control_group_leaves() {
        let machine = Memory { total: 16 << 30, available: 9 << 30 };
        assert_eq!(machine.within("max\n", "5", ""), machine);
        assert_eq!(machine.within("", "", ""), machine);
        let group =
            machine.within("536870912\n", "402653184\n", "anon 1\ninactive_file 134217728\n");
        assert_eq!(group, Memory { total: 512 << 20, available: 256 << 20 });
        assert_eq!(group.pool_size(), "128M");
    }

    #[test]
    fn sizes_are_spelled_in_the_largest_unit_that_has_them_whole() {
        let spell = [(3 << 30, "3G"), (1536 << 20, "1536M"), (4096, "4K"), (5000, "5000")];
        for (bytes, text) in spell {
            assert_eq!(spelled(bytes), text);
        }
    }
}

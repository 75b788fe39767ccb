//! Limits of this process and of the kernel that programs on a pool meet.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::line::Line;
use crate::size;

/// All of them.
pub fn all() -> Vec<Line> {
    let limit = |resource| getrlimit(resource).current;
    vec![
        descriptors(limit(Resource::Nofile)),
        locked(limit(Resource::Memlock)),
        maps(number("/proc/sys/vm/max_map_count")),
        identifiers(&fs::read_to_string("/proc/cmdline").unwrap_or_default()),
        segments(number("/proc/sys/kernel/shmmax"), number("/proc/sys/kernel/shmall")),
    ]
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn descriptors(limit: Option<u64>) -> Line {
    const WHAT: &str = "open files (ulimit -n)";
    /// Where the library keeps its descriptors, out of a program's way.
    const KEPT: u64 = 910;
    match limit {
        None => Line::good(WHAT, "no limit"),
        Some(most) if most > KEPT => Line::good(WHAT, most.to_string()),
        Some(most) => Line::note(
            WHAT,
            format!("{most}: the library keeps its descriptors among the program's"),
            "`ulimit -n 1024`; for good: `echo '* soft nofile 1024' >>/etc/security/limits.conf`",
        ),
    }
}

fn locked(limit: Option<u64>) -> Line {
    const WHAT: &str = "locked memory (ulimit -l)";
    let found = limit.map_or_else(|| "no limit".to_owned(), size::show);
    Line::good(WHAT, format!("{found}; a pool needs none, QEMU's `-overcommit mem-lock=on` does"))
}

fn maps(most: Option<u64>) -> Line {
    const WHAT: &str = "mappings (vm.max_map_count)";
    /// The kernel's default.
    const USUAL: u64 = 65_530;
    match most {
        Some(most) if most < USUAL => Line::note(
            WHAT,
            format!("{most}: a process can attach fewer segments than usual"),
            format!("`sysctl vm.max_map_count={USUAL}`"),
        ),
        most => Line::good(WHAT, most.map_or_else(|| "unknown".into(), |most| most.to_string())),
    }
}

/// Ids of a pool and of the kernel are distinguished by an index that the kernel reaches only in
/// this mode.
fn identifiers(command_line: &str) -> Line {
    const WHAT: &str = "the kernel's identifiers";
    if command_line.split_whitespace().any(|word| word == "ipcmni_extend") {
        return Line::bad(
            WHAT,
            "the boot option ipcmni_extend: they may be the same numbers as a pool's",
            "boot without ipcmni_extend, or put all kinds on the pool (`vshmem run --share all`)",
        );
    }
    Line::good(WHAT, "other numbers than a pool's")
}

fn segments(shmmax: Option<u64>, shmall: Option<u64>) -> Line {
    const WHAT: &str = "the kernel's own segments (kernel.shm*)";
    /// Programs that share nothing, and the rival in `vshmem bench`, need this much.
    const ENOUGH: u64 = 64 << 20;
    let show =
        |bytes: u64| if bytes >= 1 << 60 { "no limit".to_owned() } else { size::show(bytes) };
    let (Some(largest), Some(pages)) = (shmmax, shmall) else {
        return Line::good(WHAT, "this kernel has no System V IPC; a pool does not need it");
    };
    let all = pages.saturating_mul(4096);
    let found = format!("one: {}, all: {}; a pool has its own limits", show(largest), show(all));
    if largest < ENOUGH || all < ENOUGH {
        return Line::note(
            WHAT,
            found,
            "for what is not shared (`--share`): `sysctl kernel.shmmax=68719476736 kernel.shmall=16777216`",
        );
    }
    Line::good(WHAT, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_limits_have_a_remedy_and_are_no_fault() {
        for line in [descriptors(Some(256)), maps(Some(100)), segments(Some(1 << 20), Some(256))] {
            assert!(line.good && line.has_command(), "{line:?}");
        }
        for line in [descriptors(Some(1024)), descriptors(None), maps(Some(65_530)), locked(None)] {
            assert!(line.good && line.remedy.is_none(), "{line:?}");
        }
    }

    #[test]
    fn extended_identifiers_are_refused() {
        let extended = identifiers("quiet ipcmni_extend ro");
        assert!(!extended.good && extended.has_command());
        assert!(identifiers("quiet ro").good);
    }

    #[test]
    fn no_limit_is_not_shown_as_a_number() {
        let line = segments(Some(u64::MAX - (1 << 24)), Some(u64::MAX - (1 << 24)));
        assert!(line.found.contains("no limit") && line.remedy.is_none(), "{line:?}");
    }
}

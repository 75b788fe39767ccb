//! The pages of processes that a case starts, looked at while they run: what a process has given
//! back before its end counts, too.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use vshmem_plan::NumberSet;
use vshmem_plan::running::{Mapping, mappings_of};

use super::pages::{Kind, Pages, kind};
use super::{Pinned, Placement};

/// The first look comes so soon, for short programs; each pause is twice as long as the one before.
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// Four looks a second take less than one part in a hundred of one of the host's CPUs.
const PAUSE: Duration = Duration::from_millis(250);

/// Runs something, and says where the pages of the processes lay that it has started.
pub(crate) fn watch<T>(placement: &Placement, run: impl FnOnce() -> T) -> (T, Vec<Pages>) {
    let before: HashSet<u32> = descendants().into_iter().collect();
    let (running, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(move || look(placement, &before, &ended));
        let value = run();
        drop(running);
        let pages = watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (value, pages)
    })
}

/// A process when it had most pages of the program that it has become last.
struct Seen {
    program: PathBuf,
    cpus: NumberSet,
    bytes: u64,
    by_kind: Vec<(Kind, BTreeMap<u32, u64>)>,
}

fn look(placement: &Placement, before: &HashSet<u32>, ended: &Receiver<()>) -> Vec<Pages> {
    // Beside what is measured, where the host has CPUs of its own.
    let _pinned = Pinned::to(placement.host());
    let mut most: HashMap<u32, Seen> = HashMap::new();
    let mut pause = FIRST_LOOK;
    while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        for process in descendants().into_iter().filter(|process| !before.contains(process)) {
            let Some(seen) = seen(process) else { continue };
            let is_less = |known: &Seen| known.program == seen.program && known.bytes > seen.bytes;
            if !most.get(&process).is_some_and(is_less) {
                most.insert(process, seen);
            }
        }
        pause = (pause * 2).min(PAUSE);
    }
    summed(placement, most.into_values())
}

/// One that has ended meanwhile is not seen, nor one that is about to become a program: until then
/// it has the memory of this process, or is `vshmem run`.
fn seen(process: u32) -> Option<Seen> {
    let program = fs::read_link(format!("/proc/{process}/exe")).ok()?;
    if std::env::current_exe().is_ok_and(|own| own == program) {
        return None;
    }
    let mappings: Vec<Mapping> = mappings_of(process).ok()?;
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let by_kind: Vec<_> = mappings
        .into_iter()
        .filter_map(|mapping| Some((kind(&mapping)?, mapping.bytes_by_node)))
        .collect();
    let bytes = by_kind.iter().flat_map(|(_, by_node)| by_node.values()).sum();
    Some(Seen { program, cpus: NumberSet::from_list(cpus)?, bytes, by_kind })
}

/// Own memory by the nodes of the process's CPUs; shared memory is anybody's.
fn summed(placement: &Placement, all: impl Iterator<Item = Seen>) -> Vec<Pages> {
    let mut sums: Vec<Pages> = Vec::new();
    for seen in all {
        for (kind, by_node) in &seen.by_kind {
            let (of, planned) = match kind {
                Kind::Own => ("own memory", placement.nodes_of(&seen.cpus)),
                Kind::Shared => ("shared memory", placement.nodes_of(&NumberSet::default())),
            };
            match sums.iter_mut().find(|sum| sum.of == of && sum.planned == planned) {
                Some(sum) => sum.add(by_node),
                None => sums.push(Pages { of: of.into(), planned, by_node: by_node.clone() }),
            }
        }
    }
    sums.retain(|sum| sum.bytes() > 0);
    sums.sort_by(|one, other| (&one.of, &one.planned).cmp(&(&other.of, &other.planned)));
    sums
}

/// The processes that this one has started, with those that they have started.
fn descendants() -> Vec<u32> {
    let mut found: Vec<u32> = children(std::process::id());
    let mut next = 0;
    while next < found.len() {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

fn children(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let numbers = |list: String| -> Vec<u32> {
        list.split_whitespace().filter_map(|number| number.parse().ok()).collect()
    };
    lists.flat_map(numbers).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_pages_of_what_is_started_are_counted_and_no_others() {
        let placement = super::super::tests::two_nodes();
        let ((), pages) = watch(&placement, || {
            // The shell waits for its child, so both are there for a while.
            let mut shell = Command::new("sh").args(["-c", "sleep 60; :"]).spawn().unwrap();
            let mut looks = 0;
            while looks < 3 {
                looks += u32::from(!children(shell.id()).is_empty());
                std::thread::sleep(PAUSE);
            }
            for process in children(shell.id()) {
                let process = rustix::process::Pid::from_raw(process.cast_signed()).unwrap();
                rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
            }
            shell.wait().unwrap();
        });
        let own: Vec<&Pages> = pages.iter().filter(|pages| pages.of == "own memory").collect();
        // A kernel without nodes does not tell.
        if std::path::Path::new("/proc/self/numa_maps").exists() {
            assert!(
                !own.is_empty() && own.iter().all(|pages| pages.bytes() < 64 << 20),
                "{pages:?}"
            );
        }
        let ((), pages) = watch(&placement, || std::thread::sleep(PAUSE));
        assert_eq!(pages, []);
    }
}

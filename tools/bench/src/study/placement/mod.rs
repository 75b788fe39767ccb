//! Programs and guests in the places that a plan has for guests, and where the pages lie that they
//! use there.

mod guest_processes;
mod pages;
mod pinned;
mod watch;

use vshmem_plan::{NumberSet, Plan};

pub(crate) use guest_processes::{count, pin};
pub use pages::Pages;
pub(crate) use pinned::Pinned;
pub(crate) use watch::watch;

/// The part of a host that one guest of a plan has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The CPU of each vCPU.
    pub cpus: Vec<u32>,
    /// Where the threads of its monitor run that are no vCPUs.
    pub emulator: NumberSet,
    /// Where its memory comes from.
    pub nodes: NumberSet,
}

/// Who runs where: the guests that are compared have a share each, and programs of one kernel, as
/// one wide guest, have the CPUs of all shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    shares: Vec<Share>,
    host: NumberSet,
}

impl Placement {
    /// Of the first `guests` guests of a plan. `None`: it has fewer.
    #[must_use]
    pub fn of(plan: &Plan, guests: usize) -> Option<Self> {
        let share = |guest: &vshmem_plan::Guest| Share {
            cpus: guest.vcpus.clone(),
            emulator: guest.emulator.clone(),
            nodes: guest.nodes(),
        };
        let shares: Vec<Share> = plan.guests.iter().take(guests).map(share).collect();
        let is_whole = shares.len() == guests && shares.iter().all(|share| !share.cpus.is_empty());
        is_whole.then(|| Self { shares, host: plan.host.cpus.clone() })
    }

    /// The shares, in the order of the guests.
    #[must_use]
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// The CPU of a process or vCPU with that number from 0: they go round the shares, as ranks go
    /// round guests.
    #[must_use]
    pub fn cpu_of(&self, number: u32) -> u32 {
        let count = self.shares.len();
        let cpus = &self.shares[number as usize % count].cpus;
        cpus[number as usize / count % cpus.len()]
    }

    /// The CPU of each of so many ranks of Open MPI, which fills one guest before the next.
    #[must_use]
    pub fn cpus_of_ranks(&self, ranks: u32) -> Vec<u32> {
        let each = ranks.div_ceil(self.shares.len() as u32).max(1) as usize;
        let cpu = |rank: usize| {
            let cpus = &self.shares[rank / each].cpus;
            cpus[rank % each % cpus.len()]
        };
        (0..ranks as usize).map(cpu).collect()
    }

    /// What stands before a program of so many ranks under `mpirun`, so that each has its CPU.
    pub(crate) fn words_under_mpirun(&self, ranks: u32) -> [String; 4] {
        let cpus: Vec<String> = self.cpus_of_ranks(ranks).iter().map(u32::to_string).collect();
        let line =
            r#"exec taskset -c "$(echo "$0" | cut -d, -f$((OMPI_COMM_WORLD_RANK + 1)))" "$@""#;
        ["sh".into(), "-c".into(), line.into(), cpus.join(",")]
    }

    /// The CPUs of a case of one kernel: one process has the first share, several have all.
    pub(crate) fn cpus_for(&self, ranks: u32) -> NumberSet {
        let shares = if ranks > 1 { &self.shares[..] } else { &self.shares[..1] };
        shares.iter().flat_map(|share| share.cpus.iter().copied()).collect()
    }

    /// The nodes of the shares that these CPUs are of; of all shares where they are of none.
    pub(crate) fn nodes_of(&self, cpus: &NumberSet) -> NumberSet {
        let is_meant = |share: &&Share| share.cpus.iter().any(|cpu| cpus.contains(*cpu));
        let of = |shares: &mut dyn Iterator<Item = &Share>| -> NumberSet {
            shares.flat_map(|share| share.nodes.iter().collect::<Vec<_>>()).collect()
        };
        let nodes = of(&mut self.shares.iter().filter(is_meant));
        if nodes.is_empty() { of(&mut self.shares.iter()) } else { nodes }
    }

    /// All shares as one guest's.
    pub(crate) fn wide(&self) -> Share {
        let count: usize = self.shares.iter().map(|share| share.cpus.len()).sum();
        let mut emulator = NumberSet::default();
        self.shares.iter().for_each(|share| emulator.insert_all(&share.emulator));
        Share {
            cpus: (0..count as u32).map(|number| self.cpu_of(number)).collect(),
            emulator,
            nodes: self.nodes_of(&NumberSet::default()),
        }
    }

    /// The CPUs that the host keeps; may be empty.
    pub(crate) fn host(&self) -> &NumberSet {
        &self.host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> NumberSet {
        NumberSet::from_list(list).unwrap()
    }

    pub(super) fn two_nodes() -> Placement {
        let share = |cpus: [u32; 2], node: &str| Share {
            cpus: cpus.to_vec(),
            emulator: set("0"),
            nodes: set(node),
        };
        Placement { shares: vec![share([1, 2], "0"), share([5, 6], "1")], host: set("0,4") }
    }

    #[test]
    fn ranks_go_round_as_in_guests_and_those_of_mpi_fill_one_share_first() {
        let placement = two_nodes();
        let round: Vec<u32> = (0..5).map(|rank| placement.cpu_of(rank)).collect();
        assert_eq!(round, [1, 5, 2, 6, 1]);
        assert_eq!(placement.cpus_of_ranks(4), [1, 2, 5, 6]);
        assert_eq!(placement.cpus_of_ranks(2), [1, 5]);
        assert_eq!(placement.cpus_of_ranks(3), [1, 2, 5]);
        assert_eq!(placement.words_under_mpirun(2)[3], "1,5");
        assert_eq!(placement.wide().cpus, [1, 5, 2, 6]);
    }

    #[test]
    fn memory_is_planned_where_the_cpus_are() {
        let placement = two_nodes();
        assert_eq!(placement.nodes_of(&set("5")), set("1"));
        assert_eq!(placement.nodes_of(&placement.cpus_for(1)), set("0"));
        assert_eq!(placement.nodes_of(&placement.cpus_for(2)), set("0-1"));
        assert_eq!(placement.nodes_of(&set("0")), set("0-1"));
    }
}

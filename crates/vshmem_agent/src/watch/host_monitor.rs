//! Whether the memory behind a guest's device is still the host's.
//!
//! A guest that is migrated, or restored from a snapshot, with a pool on an nvdimm or virtio-pmem
//! device continues with a copy of it. It gets no notice: its boot id, its clocks and its processes
//! are what they were. What it can see is that no other domain writes any more, from one moment on.
//! One silent member proves nothing (it may be paused, or dead); so two others are needed that were
//! active before and have not left: the host, which renews its word once a second while `vshmem
//! pool serve` or a process of the host runs on the pool, and a domain of another kernel that has
//! an agent. They must have fallen silent at the same time: a server that was killed and a domain
//! that is paused some time later prove nothing either. Time is counted in rounds of this agent,
//! which stop when the guest does: a guest that is frozen and goes on where it was finds new words
//! there.

/// Rounds, of about a second each, after which silence is taken for good.
pub const ROUNDS: u32 = 30;
/// Rounds between the last words of two that fell silent at the same time: each renews its word
/// once a second, where it finds a CPU.
const APART: u32 = 5;

/// What one round shows of a domain of another kernel, which is not the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignDomain {
    pub index: u32,
    pub epoch: u32,
    pub lease: u32,
}

/// What can be said of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing against it.
    Well,
    /// It has just been silent for long, and there is no other kernel whose silence would tell why.
    /// Said once.
    HostSilent,
    /// This domain is alone with a copy.
    Alone,
}

/// What has been heard so far.
#[derive(Debug, Default)]
pub struct HostMonitor {
    heartbeat: Option<u64>,
    foreign: Vec<ForeignDomain>,
    /// The host's beat has changed since it was first seen.
    host_heard: bool,
    /// So has the lease of one of the foreign domains that are there.
    foreign_heard: bool,
    /// Rounds since the beat has changed.
    host_silent: u32,
    /// Rounds since a lease has.
    foreign_silent: u32,
}

impl HostMonitor {
    /// Takes note of a round: the host's beat, if it attends, and foreign domains with an agent.
    pub fn judge(&mut self, heartbeat: Option<u64>, foreign: Vec<ForeignDomain>) -> Verdict {
        let lease_moved = foreign.iter().any(|now| {
            let same = |then: &&ForeignDomain| (then.index, then.epoch) == (now.index, now.epoch);
            self.foreign.iter().find(same).is_some_and(|then| then.lease != now.lease)
        });
        let beat_moved = heartbeat != self.heartbeat;
        let (has_host, has_foreign) = (heartbeat.is_some(), !foreign.is_empty());
        self.host_heard = has_host && (self.host_heard || (beat_moved && self.heartbeat.is_some()));
        self.foreign_heard = has_foreign && (self.foreign_heard || lease_moved);
        self.host_silent = rounds_since(beat_moved || !has_host, self.host_silent);
        self.foreign_silent = rounds_since(lease_moved || !has_foreign, self.foreign_silent);
        (self.heartbeat, self.foreign) = (heartbeat, foreign);
        if !self.host_heard {
            return Verdict::Well;
        }
        let together = self.host_silent.abs_diff(self.foreign_silent) <= APART;
        if self.foreign_heard && together && self.host_silent.min(self.foreign_silent) >= ROUNDS {
            return Verdict::Alone;
        }
        if !has_foreign && self.host_silent == ROUNDS {
            return Verdict::HostSilent;
        }
        Verdict::Well
    }
}

fn rounds_since(now: bool, before: u32) -> u32 {
    if now { 0 } else { before.saturating_add(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(lease: u32) -> Vec<ForeignDomain> {
        vec![ForeignDomain { index: 1, epoch: 1, lease }]
    }

    /// A monitor that has heard the host and a foreign domain.
    fn with_company() -> HostMonitor {
        let mut host_monitor = HostMonitor::default();
        for round in 1..4_u32 {
            assert_eq!(host_monitor.judge(Some(round.into()), foreign(round)), Verdict::Well);
        }
        host_monitor
    }

    fn ends_alone(host_monitor: &mut HostMonitor, heartbeat: Option<u64>, lease: u32) -> bool {
        (0..2 * ROUNDS).any(|_| host_monitor.judge(heartbeat, foreign(lease)) == Verdict::Alone)
    }

    #[test]
    fn a_copy_without_writers_is_noticed() {
        assert!(ends_alone(&mut with_company(), Some(3), 3));
        // Their last words need not come in one round.
        let mut host_monitor = with_company();
        for round in 4..4 + APART {
            assert_eq!(host_monitor.judge(Some(3), foreign(round)), Verdict::Well);
        }
        assert!(ends_alone(&mut host_monitor, Some(3), 3 + APART));
    }

    #[test]
    fn a_guest_that_is_frozen_and_goes_on_in_place_is_not_alone() {
        let mut host_monitor = with_company();
        for round in 10..200_u32 {
            // Each time it wakes up, others have gone on for long.
            let verdict = host_monitor.judge(Some(u64::from(round) * 1000), foreign(round * 1000));
            assert_eq!(verdict, Verdict::Well);
        }
    }

    #[test]
    fn a_killed_server_alone_proves_nothing() {
        let mut host_monitor = with_company();
        assert!((4..200).all(|round| host_monitor.judge(Some(3), foreign(round)) == Verdict::Well));
    }

    #[test]
    fn paused_domains_alone_prove_nothing() {
        let mut host_monitor = with_company();
        assert!((4..200).all(|round| host_monitor.judge(Some(round), foreign(3)) == Verdict::Well));
    }

    #[test]
    fn a_domain_that_is_paused_after_the_server_was_killed_proves_nothing() {
        let mut host_monitor = with_company();
        assert!((4..60).all(|round| host_monitor.judge(Some(3), foreign(round)) == Verdict::Well));
        assert!(!ends_alone(&mut host_monitor, Some(3), 59));
    }

    #[test]
    fn a_host_that_is_the_only_company_is_missed_once_and_the_guest_goes_on() {
        let mut host_monitor = HostMonitor::default();
        for round in 1..4 {
            assert_eq!(host_monitor.judge(Some(round), Vec::new()), Verdict::Well);
        }
        let verdicts: Vec<Verdict> =
            (0..200).map(|_| host_monitor.judge(Some(3), Vec::new())).collect();
        assert!(!verdicts.contains(&Verdict::Alone));
        assert_eq!(verdicts.iter().filter(|&&said| said == Verdict::HostSilent).count(), 1);
        // It comes back, and ends again.
        assert_eq!(host_monitor.judge(Some(4), Vec::new()), Verdict::Well);
        assert!((0..200).any(|_| host_monitor.judge(Some(4), Vec::new()) == Verdict::HostSilent));
    }

    #[test]
    fn who_has_taken_leave_is_not_silent() {
        assert!(!ends_alone(&mut with_company(), None, 3));
        let mut host_monitor = with_company();
        assert!((0..200).all(|_| host_monitor.judge(Some(3), Vec::new()) != Verdict::Alone));
    }

    #[test]
    fn who_was_never_heard_is_not_missed() {
        assert!(!ends_alone(&mut HostMonitor::default(), Some(7), 7));
    }
}

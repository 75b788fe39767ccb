//! On which CPU the client that a waiter waits for can run.

use std::process::{Child, Command};

use rustix::process::{Pid, getpid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use vshmem_ipc::Lease;
use vshmem_sync::WakerCpu;

use crate::fixture::{join, join_in, pool};

/// A process that does nothing, on these CPUs.
struct Idle(Child);

impl Idle {
    fn on(cpus: &CpuSet) -> Self {
        let child = Command::new("sleep").arg("1000").spawn().expect("a process");
        let idle = Self(child);
        sched_setaffinity(Pid::from_raw(idle.pid() as i32), cpus).expect("its CPUs");
        idle
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a thread of this process finds whose pool has these other clients, the agent among them.
fn waker_cpu(clients: &[u32], agent: u32) -> WakerCpu {
    let pool = pool();
    let me = join(&pool, getpid().as_raw_nonzero().get() as u32);
    let _others: Vec<_> = clients.iter().map(|pid| join(&pool, *pid)).collect();
    me.renew_lease(agent, &mut Lease::default()).expect("a lease");
    me.waker_cpu()
}

#[test]
fn who_shares_the_only_cpu_and_the_agent_answer_from_no_other() {
    let all = sched_getaffinity(None).expect("CPUs");
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|index| all.is_set(*index)).collect();
    let [first, second, ..] = cpus[..] else { return };
    let [here, there] = [first, second].map(|index| {
        let mut one = CpuSet::new();
        one.set(index);
        one
    });
    let (beside, elsewhere, agent) = (Idle::on(&here), Idle::on(&there), Idle::on(&all));
    // The process's mask is that of its first thread, which waits for the tests.
    let first_thread = Some(getpid());
    let before = sched_getaffinity(first_thread).expect("CPUs");
    sched_setaffinity(None, &here).expect("one CPU");
    sched_setaffinity(first_thread, &here).expect("one CPU");
    let found = [
        waker_cpu(&[beside.pid()], 0),
        waker_cpu(&[beside.pid(), agent.pid()], agent.pid()),
        waker_cpu(&[beside.pid(), agent.pid()], 0),
        waker_cpu(&[beside.pid(), elsewhere.pid()], 0),
    ];
    let of_another_kernel = {
        let pool = pool();
        let me = join(&pool, getpid().as_raw_nonzero().get() as u32);
        let _other = join_in(&pool, "b", 1);
        me.waker_cpu()
    };
    sched_setaffinity(first_thread, &before).expect("the CPUs from before");
    use WakerCpu::{OnAnotherCpu, OnThisCpu};
    assert_eq!(found, [OnThisCpu, OnThisCpu, OnAnotherCpu, OnAnotherCpu]);
    assert_eq!(of_another_kernel, OnAnotherCpu);
}

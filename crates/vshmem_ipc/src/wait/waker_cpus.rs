//! On which CPUs the threads can run that may wake a waiter. Spinning can only succeed if there is
//! one beside the waiter's own.
//!
//! A client in another kernel runs on CPUs of its own, as far as this one can tell: also where this
//! kernel, a guest's, has a single CPU. A client of this kernel can run meanwhile if there is a CPU
//! for it beside the one that the waiter occupies: affinity masks count. Where all of them share
//! one CPU, spinning only keeps the thread that is waited for from running. The domain's agent does
//! not count.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};
use vshmem_mem::{is_confined, ticks, unless_confined};
use vshmem_sync::{Fault, WakerCpu, load_state, load_value};
use vshmem_wire::{ClientSlot, ClientState, DomainSlot, Registry, field};

use crate::context::Context;
use crate::pool::domains;

/// Where a thread that may wake this one can run while this one spins, as found within the last
/// tenth of a second or so.
pub(crate) fn waker_cpu(context: &Context) -> WakerCpu {
    let now = ticks();
    let cache = &context.waking.cpu_cache.another;
    let elsewhere = cache.known(now, is_confined()).unwrap_or_else(|| {
        // A corrupt table is reported by the code that relies on it.
        let found = unless_confined(|| find_waker_cpus(context).unwrap_or(true));
        let answer = u16::from(found.unwrap_or(true));
        cache.note(now, answer);
        answer
    });
    if elsewhere != 0 { WakerCpu::OnAnotherCpu } else { WakerCpu::OnThisCpu }
}

/// The same of several threads, all of which have to run until the wait is over: a waiter that
/// spins leaves them one CPU less than there are.
pub(crate) fn wakers_cpu(context: &Context, wakers: u32) -> WakerCpu {
    if wakers > 1 && wakers >= u32::from(cpu_count(context)) {
        return WakerCpu::OnEveryCpu;
    }
    waker_cpu(context)
}

/// On how many CPUs the pool's clients can run; `u16::MAX`, and so enough for any, where some run
/// in another kernel, and where threads are bound to CPUs: the mask of a process is that of its
/// first thread.
fn cpu_count(context: &Context) -> u16 {
    let (now, cache) = (ticks(), &context.waking.cpu_cache.count);
    cache.known(now, is_confined()).unwrap_or_else(|| {
        let found = unless_confined(|| find_cpu_count(context).unwrap_or(u16::MAX));
        let answer = found.unwrap_or(u16::MAX);
        cache.note(now, answer);
        answer
    })
}

#[cold]
fn find_cpu_count(context: &Context) -> Result<u16, Fault> {
    let mut all = cpus_of(None);
    if all.count() <= 1 {
        return Ok(u16::MAX);
    }
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
    for client in 0..high.min(layout.clients.count as u32) {
        let slot = layout.clients.row(client)?;
        if load_state(map, field!(slot, ClientSlot, state))? != Some(ClientState::Active) {
            continue;
        }
        if load_value(map, field!(slot, ClientSlot, domain))? != context.domain() {
            return Ok(u16::MAX);
        }
        let pid = load_value(map, field!(slot, ClientSlot, pid))?;
        let its = cpus_of(Pid::from_raw(pid as i32));
        (0..CpuSet::MAX_CPU).filter(|index| its.is_set(*index)).for_each(|index| all.set(index));
    }
    Ok(u16::try_from(all.count()).unwrap_or(u16::MAX))
}

#[cold]
fn find_waker_cpus(context: &Context) -> Result<bool, Fault> {
    let (layout, map) = (context.pool().layout(), context.pool().map());
    let boot = domains::boot_of(context.pool(), context.domain())?;
    let own = cpus_of(None);
    let is_only = |index| own.count() == 1 && own.is_set(index);
    // Threads of this process may have other CPUs than this one.
    let mut can_run = own.count() > 1 || has_another(Some(rustix::process::getpid()), is_only);
    let agent = load_value(map, field!(layout.domains.row(context.domain())?, DomainSlot, agent))?;
    let high = load_value(map, field!(layout.registry, Registry, clients_high))?;
    for client in 0..high.min(layout.clients.count as u32) {
        let slot = layout.clients.row(client)?;
        if load_state(map, field!(slot, ClientSlot, state))? != Some(ClientState::Active) {
            continue;
        }
        let domain = load_value(map, field!(slot, ClientSlot, domain))?;
        if domain == context.domain() {
            let pid = load_value(map, field!(slot, ClientSlot, pid))?;
            can_run = can_run || (pid != agent && has_another(Pid::from_raw(pid as i32), is_only));
        } else if domains::boot_of(context.pool(), domain)? == boot {
            // A container's processes go by other pids here.
            can_run = can_run || online_cpus_are_several();
        } else {
            return Ok(true);
        }
    }
    Ok(can_run)
}

/// CPUs that a process may use, or this thread; none if that cannot be found out.
fn cpus_of(pid: Option<Pid>) -> CpuSet {
    sched_getaffinity(pid).unwrap_or_default()
}

/// Whether a process may use another CPU than the one of which `is_only` says so.
fn has_another(pid: Option<Pid>, is_only: impl Fn(usize) -> bool) -> bool {
    let cpus = cpus_of(pid);
    (0..CpuSet::MAX_CPU).any(|index| cpus.is_set(index) && !is_only(index))
}

/// Whether this kernel runs on more than one CPU. Asked by system calls alone: std and libc use
/// functions that a program may have replaced by its own, which may come back to us.
fn online_cpus_are_several() -> bool {
    let read = || {
        let path = c"/sys/devices/system/cpu/online";
        let file = rustix::fs::open(path, rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
        let mut list = [0; 16];
        rustix::io::read(&file, &mut list)
            .map(|bytes| list[..bytes].iter().any(|c| b"-,".contains(c)))
    };
    read().unwrap_or_else(|_| cpus_of(None).count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_cpu_is_one_that_the_waiter_does_not_need() {
        let mine = Some(rustix::process::getpid());
        assert!(has_another(mine, |_| false), "there is a CPU at all");
        assert!(!has_another(mine, |_| true));
    }
}

use crate::fixture::*;
use vshmem_ipc::{Client, DomainIdentity, Errno, Lease, WakeScope};
use vshmem_mem::Ordering;
use vshmem_wire::{ClientState, DomainSlot, DomainState, field};

#[test]
fn pids_of_another_domain_read_as_zero() {
    let pool = pool();
    let (me, other) = (join_in(&pool, "a", 10), join_in(&pool, "b", 20));
    assert_ne!(me.domain(), other.domain());
    let (set, queue) = (me.set(1), me.queue());
    let segment = me.segment(PRIVATE, 1, 0).unwrap();
    me.op(set, &[up(0)]).unwrap();
    me.send(queue, 1, b"x").unwrap();
    other.receive(queue, 0).unwrap();
    other.shmat(segment, true, false, &ROOT).unwrap();
    assert_eq!(me.semaphore_pid(set, 0, &ROOT), Ok(10));
    assert_eq!(other.semaphore_pid(set, 0, &ROOT), Ok(0));
    let (mine, theirs) =
        (me.queue_stat(queue, &ROOT).unwrap(), other.queue_stat(queue, &ROOT).unwrap());
    assert_eq!((mine.sender, mine.receiver), (10, 0));
    assert_eq!((theirs.sender, theirs.receiver), (0, 20));
    let (mine, theirs) =
        (me.segment_stat(segment, &ROOT).unwrap(), other.segment_stat(segment, &ROOT).unwrap());
    assert_eq!((mine.creator, mine.last), (10, 0));
    assert_eq!((theirs.creator, theirs.last), (0, 20));
    other.shmdt(segment).unwrap();
    me.set_remove(set, &ROOT).unwrap();
    other.queue_remove(queue, &ROOT).unwrap();
    me.segment_remove(segment, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn processes_of_one_kernel_and_namespace_share_a_domain() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    assert_eq!(me.domain(), other.domain());
    let inside = DomainIdentity { pid_namespace: 2, ..domain("a") };
    let inner = Client::join(pool.clone(), &inside, process(10), None, WakeScope::Kernel).unwrap();
    assert_ne!(inner.domain(), me.domain());
    assert_eq!(pool.domains().unwrap().len(), 2);
    empty(&pool, &me);
}

#[test]
fn reaping_of_a_domain_gives_everything_back() {
    let pool = pool();
    let me = join_in(&pool, "a", 10);
    let set = me.set(1);
    let segment = me.segment(PRIVATE, 4096, 0).unwrap();
    let others: Vec<_> = (0..3).map(|n| join_in(&pool, "b", 20 + n)).collect();
    for other in &others {
        other.op(set, &[undone(up(0))]).unwrap();
        other.shmat(segment, true, false, &ROOT).unwrap();
    }
    me.segment_remove(segment, &ROOT).unwrap();
    me.reap_domain(others[0].domain()).unwrap();
    assert_eq!(me.value(set, 0), 0);
    assert_eq!(me.segment_stat(segment, &ROOT), Err(Errno::INVAL));
    assert_eq!(pool.clients().unwrap().len(), 1);
    assert_eq!(others[0].is_active_member(), Ok(false));
    assert_eq!(me.is_active_member(), Ok(true));
    me.set_remove(set, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn an_eviction_undoes_and_keeps_attaches_until_death_is_sure() {
    let pool = pool();
    let (me, other) = (join_in(&pool, "a", 10), join_in(&pool, "b", 20));
    let set = me.set(1);
    let segment = me.segment(PRIVATE, 4096, 0).unwrap();
    other.op(set, &[undone(up(0))]).unwrap();
    other.shmat(segment, true, false, &ROOT).unwrap();
    me.segment_remove(segment, &ROOT).unwrap();
    me.evict_domain(other.domain()).unwrap();
    sound(&pool);
    assert_eq!(me.value(set, 0), 0);
    assert_eq!(me.segment_stat(segment, &ROOT).unwrap().attached, 1);
    let rows = pool.clients().unwrap();
    assert!(rows.iter().any(|row| row.state == ClientState::Quarantined));
    assert_eq!(other.is_active_member(), Ok(false));
    me.reap_domain(other.domain()).unwrap();
    assert_eq!(me.segment_stat(segment, &ROOT), Err(Errno::INVAL));
    me.set_remove(set, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn the_next_boot_of_a_named_domain_reaps_the_former() {
    let pool = pool();
    let me = join_in(&pool, "a", 10);
    let set = me.set(1);
    let named = |boot: u8| DomainIdentity { boot_id: [boot; 16], named: true, ..domain("guest") };
    let first = Client::join(pool.clone(), &named(1), process(5), None, WakeScope::Kernel).unwrap();
    first.op(set, &[undone(by(0, 3))]).unwrap();
    let second =
        Client::join(pool.clone(), &named(2), process(5), None, WakeScope::Kernel).unwrap();
    assert_eq!(me.value(set, 0), 0);
    assert_eq!(first.is_active_member(), Ok(false));
    assert_eq!(second.is_active_member(), Ok(true));
    sound(&pool);
    me.set_remove(set, &ROOT).unwrap();
    empty(&pool, &me);
}

/// The process that declared it dead may have died before it was reaped: any agent goes on.
#[test]
fn dead_domains_are_listed_and_can_be_reaped_again() {
    let pool = pool();
    let (me, other) = (join_in(&pool, "a", 10), join_in(&pool, "b", 20));
    assert_eq!(pool.dead_domains(), Ok(vec![]));
    me.reap_domain(other.domain()).unwrap();
    let dead = pool.dead_domains().unwrap();
    assert_eq!(dead.iter().map(|domain| domain.0).collect::<Vec<_>>(), [other.domain()]);
    me.reap_epoch(dead[0].0, dead[0].1).unwrap();
    assert_eq!(pool.clients().unwrap().len(), 1);
    // The slot has its next domain: the former epoch is nobody's.
    let next = join_in(&pool, "c", 30);
    assert_eq!(next.domain(), other.domain());
    me.reap_epoch(dead[0].0, dead[0].1).unwrap();
    assert_eq!(next.is_active_member(), Ok(true));
    assert_eq!(pool.dead_domains(), Ok(vec![]));
    me.reap_domain(next.domain()).unwrap();
    empty(&pool, &me);
}

/// The inode of a PID namespace that has ended is given again.
#[test]
fn a_namespace_with_the_number_of_a_former_one_reaps_it() {
    let pool = pool();
    let me = join_in(&pool, "a", 10);
    let set = me.set(1);
    let born = |born: u64| DomainIdentity { born, pid_namespace: 7, ..domain("n") };
    let first =
        Client::join(pool.clone(), &born(100), process(1), None, WakeScope::Kernel).unwrap();
    first.op(set, &[undone(by(0, 3))]).unwrap();
    let second =
        Client::join(pool.clone(), &born(900), process(1), None, WakeScope::Kernel).unwrap();
    assert_eq!(me.value(set, 0), 0);
    assert_eq!(first.is_active_member(), Ok(false));
    second.op(set, &[undone(by(0, 2))]).unwrap();
    // What another agent still sees of the former one is nothing of the second's.
    for (index, epoch) in pool.dead_domains().unwrap() {
        me.reap_epoch(index, epoch).unwrap();
    }
    assert_eq!((me.value(set, 0), second.is_active_member()), (2, Ok(true)));
    sound(&pool);
    me.reap_domain(second.domain()).unwrap();
    me.set_remove(set, &ROOT).unwrap();
    empty(&pool, &me);
}

#[test]
fn the_slot_of_a_dead_domain_is_used_again() {
    let pool = pool();
    let me = join_in(&pool, "a", 10);
    for n in 0..20 {
        let guest = join_in(&pool, &format!("g{n}"), 5);
        me.reap_domain(guest.domain()).unwrap();
        sound(&pool);
    }
    let alive =
        pool.domains().unwrap().iter().filter(|row| row.state == DomainState::Alive).count();
    assert_eq!(alive, 1);
    empty(&pool, &me);
}

#[test]
fn an_evicted_domain_that_wakes_up_spoils_nothing() {
    let pool = pool();
    let (me, other) = (join_in(&pool, "a", 10), join_in(&pool, "b", 20));
    let (set, queue) = (me.set(1), me.queue());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| other.op(set, &[undone(down(0))]));
        until("asleep", || asleep(&pool) == 1);
        me.evict_domain(other.domain()).unwrap();
        until("gone from the wait queue", || me.waiters(set, 0, false) == 0);
        me.set_remove(set, &ROOT).unwrap();
        waiter.join().unwrap().unwrap_err();
    });
    // Whatever it tries is either refused or done cleanly.
    let _ = other.send_now(queue, 1, b"late");
    let _ = other.segment(PRIVATE, 4096, 0).map(|id| me.segment_remove(id, &ROOT));
    sound(&pool);
    me.queue_remove(queue, &ROOT).unwrap();
    me.reap_domain(other.domain()).unwrap();
    empty(&pool, &me);
}

#[test]
fn an_evicted_domain_is_refused_until_its_death_is_confirmed() {
    let pool = pool();
    let (me, other) = (join_in(&pool, "a", 10), join_in(&pool, "b", 20));
    let (set, queue) = (me.set(2), me.queue());
    let segment = me.segment(PRIVATE, 4096, 0).unwrap();
    other.op(set, &[undone(up(0))]).unwrap();
    other.op(set, &[up(1)]).unwrap();
    other.shmat(segment, true, false, &ROOT).unwrap();
    me.evict_domain(other.domain()).unwrap();
    // It gives nothing back that has been given back for it, and takes nothing more.
    assert_eq!(other.op(set, &[undone(down(0))]), Err(Errno::IO));
    assert_eq!(other.op(set, &[up(0)]), Err(Errno::IO));
    assert_eq!(other.op(set, &[now(down(1))]), Err(Errno::IO));
    assert_eq!(other.send_now(queue, 1, b"late"), Err(Errno::IO));
    assert_eq!(other.receive_now(queue, 0), Err(Errno::IO));
    assert_eq!(other.shmdt(segment), Err(Errno::IO));
    assert_eq!(other.segment(PRIVATE, 4096, 0), Err(Errno::IO));
    assert_eq!(other.segment(4711, 0, 0), Err(Errno::IO), "a key of no object");
    assert!(other.reserve_child().is_err());
    assert_eq!(other.evict_domain(me.domain()), Err(Errno::IO));
    assert_eq!((me.value(set, 0), me.value(set, 1)), (0, 1));
    assert_eq!(me.segment_stat(segment, &ROOT).unwrap().attached, 1);
    sound(&pool);
    let again = Client::join(pool.clone(), &domain("b"), process(21), None, WakeScope::Kernel);
    assert!(matches!(again, Err(vshmem_ipc::JoinError::Evicted)));
    me.reap_domain(other.domain()).unwrap();
    assert_eq!(me.segment_stat(segment, &ROOT).unwrap().attached, 0);
    let again = join_in(&pool, "b", 21);
    again.op(set, &[now(down(1))]).unwrap();
    assert_eq!(other.op(set, &[up(0)]), Err(Errno::IO));
    me.set_remove(set, &ROOT).unwrap();
    me.queue_remove(queue, &ROOT).unwrap();
    me.segment_remove(segment, &ROOT).unwrap();
    empty(&pool, &me);
}

/// As the agent of a guest does that finds itself alone with a copy of the pool. Clients that
/// joined before it and after it, one asleep, one with an adjustment.
#[test]
fn a_client_that_evicts_its_own_domain_leaves_no_other_client_of_it_asleep() {
    let pool = pool();
    let me = join_in(&pool, "a", 10);
    let (set, queue) = (me.set(2), me.queue());
    let [before, agent, after] = [20, 21, 22].map(|pid| join_in(&pool, "b", pid));
    for client in [&before, &agent, &after] {
        client.op(set, &[undone(up(1))]).unwrap();
    }
    std::thread::scope(|scope| {
        let waiters = [&before, &after].map(|client| scope.spawn(|| client.op(set, &[down(0)])));
        let receivers = [&before, &after].map(|client| scope.spawn(|| client.receive(queue, 0)));
        until("asleep", || asleep(&pool) == 4);
        agent.evict_domain(agent.domain()).unwrap();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Err(Errno::IO));
        }
        for receiver in receivers {
            assert_eq!(receiver.join().unwrap(), Err(Errno::IO));
        }
    });
    assert_eq!((me.value(set, 1), me.waiters(set, 0, false)), (0, 0));
    for client in [&before, &agent, &after] {
        assert_eq!(client.op(set, &[up(0)]), Err(Errno::IO));
    }
    sound(&pool);
    me.reap_domain(agent.domain()).unwrap();
    me.set_remove(set, &ROOT).unwrap();
    me.queue_remove(queue, &ROOT).unwrap();
    empty(&pool, &me);
}

/// Two agents of one domain are in copies of one machine: nobody else writes the lease. The first
/// that looks notices the other, and the other that it was noticed.
#[test]
fn an_agent_notices_one_in_a_copy_of_its_machine() {
    let pool = pool();
    let me = join_in(&pool, "a", 10);
    let (first, second) = (join_in(&pool, "b", 20), join_in(&pool, "b", 21));
    let (mut one, mut two) = (Lease::default(), Lease::default());
    for _ in 0..3 {
        assert_eq!(first.renew_lease(20, &mut one), Ok(true));
    }
    // Both go on from the same snapshot: they have written the same, and write now.
    assert_eq!(second.renew_lease(20, &mut two), Ok(true));
    assert_eq!(first.renew_lease(20, &mut one), Ok(false));
    first.evict_twins().unwrap();
    assert_eq!(second.renew_lease(20, &mut two), Ok(false), "though it is evicted");
    second.evict_twins().unwrap_err();
    let rows = pool.domains().unwrap();
    let row = rows.iter().find(|row| row.index == first.domain()).unwrap();
    assert_eq!((row.state, row.name.as_str()), (DomainState::Evicted, "twins of b"));
    // A copy that boots again under its name does not end the others.
    let named = DomainIdentity { boot_id: [9; 16], named: true, ..domain("b") };
    let again = Client::join(pool.clone(), &named, process(1), None, WakeScope::Kernel).unwrap();
    assert_ne!(again.domain(), first.domain());
    assert_eq!(pool.domains().unwrap().iter().filter(|row| row.name == "twins of b").count(), 1);
    again.leave().unwrap();
    sound(&pool);
    me.reap_domain(first.domain()).unwrap();
    empty(&pool, &me);
}

/// The thread that evicts a domain may be killed when it has written that down and done nothing
/// yet.
#[test]
fn a_waiter_finds_out_by_itself_that_its_domain_was_evicted() {
    let pool = pool();
    let (me, other) = (join_in(&pool, "a", 10), join_in(&pool, "b", 20));
    let set = me.set(1);
    let slot = pool.layout().domains.at(other.domain()).unwrap();
    let state = field!(slot, DomainSlot, state).cell().word();
    let alive = pool.map().load(state, Ordering::Relaxed).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| other.op(set, &[down(0)]));
        until("asleep", || asleep(&pool) == 1);
        assert_eq!(other.must_start_agent(|_| false), Ok(true));
        let evicted = (alive & !0xffff_ffff) | DomainState::Evicted as u64;
        pool.map().store(state, evicted, Ordering::Relaxed).unwrap();
        assert_eq!(waiter.join().unwrap(), Err(Errno::IO));
    });
    assert_eq!(other.must_start_agent(|_| false), Ok(false), "it could not join");
    me.reap_domain(other.domain()).unwrap();
    me.set_remove(set, &ROOT).unwrap();
    empty(&pool, &me);
}

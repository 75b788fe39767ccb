//! Domains that can only notify each other as a whole: each has wait words of its own, as guests
//! do.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::fixture::*;
use vshmem_ipc::{Client, Errno, WakeScope};
use vshmem_sync::Doorbell;

/// A board that all domains' doorbells hang on, in place of a hypervisor.
#[derive(Debug, Default)]
struct Board {
    /// Who delivers the notifications of an address.
    agents: Mutex<Vec<(u32, Arc<OnceLock<Client>>)>>,
    /// Addresses that were notified, in order.
    rung: Mutex<Vec<u32>>,
    /// Notifications are lost.
    broken: AtomicBool,
    /// Waiters that were woken by a delivery.
    woken: AtomicUsize,
}

#[derive(Debug)]
struct Bell {
    board: Arc<Board>,
    address: u32,
}

impl Doorbell for Bell {
    fn own_address(&self) -> Option<u32> {
        Some(self.address)
    }

    fn notify(&self, address: u32) -> Result<(), Errno> {
        self.board.rung.lock().unwrap().push(address);
        if self.board.broken.load(Ordering::Relaxed) {
            return Ok(());
        }
        let agents = self.board.agents.lock().unwrap();
        for (_, agent) in agents.iter().filter(|(of, _)| *of == address) {
            let woken = agent.get().map_or(0, Client::deliver_wakeups);
            self.board.woken.fetch_add(woken, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Guest {
    /// Joins with a doorbell, and an agent that answers it.
    fn connected(&self, pid: u32, board: &Arc<Board>, address: u32) -> Client {
        let agent = self.join(pid + 1000);
        agent.use_doorbell(Arc::new(Bell { board: Arc::clone(board), address }));
        let slot = Arc::new(OnceLock::new());
        slot.set(agent).unwrap();
        board.agents.lock().unwrap().push((address, slot));
        let this_client = self.join(pid);
        this_client.use_doorbell(Arc::new(Bell { board: Arc::clone(board), address }));
        this_client
    }
}

fn rings_of(board: &Board, address: u32) -> usize {
    board.rung.lock().unwrap().iter().filter(|&&rung| rung == address).count()
}

#[test]
fn a_waiter_of_another_domain_is_woken_by_its_doorbell() {
    let (pool, board) = (pool(), Arc::new(Board::default()));
    let (a, b) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"));
    let (me, other) = (a.connected(10, &board, 0), b.connected(20, &board, 1));
    assert_eq!(other.is_woken_by_all(), Ok(true));
    let set = me.set(1);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            for _ in 0..20 {
                other.op(set, &[down(0)]).unwrap();
            }
        });
        for turn in 1..=20 {
            until("asleep", || me.waiters(set, 0, false) == 1);
            let before = rings_of(&board, 1);
            me.op(set, &[up(0)]).unwrap();
            assert_eq!(rings_of(&board, 1), before + 1, "turn {turn}");
        }
        waiter.join().unwrap();
    });
    // Only the domain of the waiter was notified.
    assert_eq!(rings_of(&board, 0), 0);
    assert_eq!(rings_of(&board, 1), 20);
}

#[test]
fn many_waiters_of_a_domain_are_notified_once() {
    let (pool, board) = (pool(), Arc::new(Board::default()));
    let (a, b) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"));
    let (me, other) = (a.connected(10, &board, 0), b.connected(20, &board, 1));
    let set = me.set(1);
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..5).map(|_| scope.spawn(|| other.op(set, &[down(0)]))).collect();
        until("asleep", || me.waiters(set, 0, false) == 5);
        me.op(set, &[by(0, 5)]).unwrap();
        for waiter in waiters {
            waiter.join().unwrap().unwrap();
        }
    });
    assert_eq!(rings_of(&board, 1), 1);
}

#[test]
fn queues_wake_receivers_and_senders() {
    let (pool, board) = (pool(), Arc::new(Board::default()));
    let (a, b) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"));
    let (me, other) = (a.connected(10, &board, 0), b.connected(20, &board, 1));
    let queue = me.queue();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| other.receive(queue, 0));
        until("asleep", || asleep(&pool) == 1);
        me.send(queue, 3, b"x").unwrap();
        assert_eq!(receiver.join().unwrap(), Ok((3, b"x".to_vec())));
    });
    assert_eq!(rings_of(&board, 1), 1);
    me.queue_remove(queue, &ROOT).unwrap();
}

#[test]
fn removing_an_object_wakes_its_waiters() {
    let (pool, board) = (pool(), Arc::new(Board::default()));
    let (a, b) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"));
    let (me, other) = (a.connected(10, &board, 0), b.connected(20, &board, 1));
    let set = me.set(1);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| other.op(set, &[down(0)]));
        until("asleep", || me.waiters(set, 0, false) == 1);
        me.set_remove(set, &ROOT).unwrap();
        assert_eq!(waiter.join().unwrap(), Err(Errno::IDRM));
    });
    assert_eq!(rings_of(&board, 1), 1);
}

#[test]
fn a_lost_notification_delays_a_waiter_and_no_more() {
    let (pool, board) = (pool(), Arc::new(Board::default()));
    let (a, b) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"));
    let (me, other) = (a.connected(10, &board, 0), b.connected(20, &board, 1));
    board.broken.store(true, Ordering::Relaxed);
    let set = me.set(1);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| other.op(set, &[down(0)]));
        until("asleep", || me.waiters(set, 0, false) == 1);
        me.op(set, &[up(0)]).unwrap();
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(board.woken.load(Ordering::Relaxed), 0);
}

#[test]
fn spurious_notifications_wake_no_thread() {
    let (pool, board) = (pool(), Arc::new(Board::default()));
    let (a, b) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"));
    let (me, other) = (a.connected(10, &board, 0), b.connected(20, &board, 1));
    let set = me.set(1);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| other.op(set, &[down(0)]));
        until("asleep", || me.waiters(set, 0, false) == 1);
        let bell = Bell { board: Arc::clone(&board), address: 0 };
        for address in [0, 1, 7] {
            bell.notify(address).unwrap();
        }
        assert_eq!(me.waiters(set, 0, false), 1);
        assert_eq!(board.woken.load(Ordering::Relaxed), 0);
        me.op(set, &[up(0)]).unwrap();
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn a_domain_without_a_doorbell_makes_the_others_look_while_it_has_clients() {
    let (pool, board) = (pool(), Arc::new(Board::default()));
    let (a, b, c) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"), Guest::new(&pool, "c"));
    let (me, other) = (a.connected(10, &board, 0), b.connected(20, &board, 1));
    assert_eq!((me.is_woken_by_all(), other.is_woken_by_all()), (Ok(true), Ok(true)));
    let mute = c.join(30);
    assert_eq!((me.is_woken_by_all(), other.is_woken_by_all()), (Ok(false), Ok(false)));
    assert_eq!(mute.is_woken_by_all(), Ok(false));
    mute.leave().unwrap();
    assert_eq!((me.is_woken_by_all(), other.is_woken_by_all()), (Ok(true), Ok(true)));
}

#[test]
fn a_domain_whose_programs_have_lost_their_doorbell_says_so() {
    let (pool, board) = (pool(), Arc::new(Board::default()));
    let (a, b) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"));
    let (me, _other) = (a.connected(10, &board, 0), b.connected(20, &board, 1));
    // Its next agent came without the driver.
    b.join(21).publish_address().unwrap();
    assert_eq!(me.is_woken_by_all(), Ok(false));
}

#[test]
fn the_next_domain_in_a_slot_has_no_address_of_its_own_accord() {
    let (pool, board) = (pool(), Arc::new(Board::default()));
    let (a, b) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"));
    let me = a.connected(10, &board, 0);
    let gone = b.connected(20, &board, 1).domain();
    board.agents.lock().unwrap().retain(|(address, _)| *address == 0);
    me.reap_domain(gone).unwrap();
    let next = Guest::new(&pool, "n").join(5);
    assert_eq!(next.domain(), gone);
    let rows = pool.domains().unwrap();
    assert_eq!(rows.iter().find(|row| row.index == gone).unwrap().address, None);
}

#[test]
fn reaping_notifies_all_domains() {
    let (pool, board) = (pool(), Arc::new(Board::default()));
    let (a, b) = (Guest::new(&pool, "a"), Guest::new(&pool, "b"));
    let (me, _other) = (a.connected(10, &board, 0), b.connected(20, &board, 1));
    let third = Guest::new(&pool, "c").join(30);
    me.reap_domain(third.domain()).unwrap();
    assert!(rings_of(&board, 1) >= 1);
    assert_eq!(rings_of(&board, 0), 0);
}

#[test]
fn domains_of_one_kernel_need_no_doorbell() {
    let pool = pool();
    let me = join(&pool, 10);
    let inside = vshmem_ipc::DomainIdentity { pid_namespace: 2, ..domain("a") };
    let inner = Client::join(pool.clone(), &inside, process(10), None, WakeScope::Kernel).unwrap();
    assert_eq!((me.is_woken_by_all(), inner.is_woken_by_all()), (Ok(true), Ok(true)));
}

//! Users of one domain whose wait words lie apart: none touches those of another.

use std::sync::{Arc, Mutex};

use crate::fixture::*;
use vshmem_ipc::{Client, Pool, WaitFile, WakeScope};
use vshmem_mem::Map;
use vshmem_sync::{WaitWords, WakeOtherUsers, WordsOwner};

/// All users' files of a domain, in place of the kernel.
#[derive(Debug, Default)]
struct House {
    files: Mutex<Vec<(WordsOwner, Arc<Map>)>>,
    /// Who was woken by another process.
    rung: Mutex<Vec<WordsOwner>>,
}

#[derive(Debug)]
struct Door(Arc<House>);

impl WakeOtherUsers for Door {
    fn wake(&self, owner: WordsOwner, slot: u32) {
        self.0.rung.lock().unwrap().push(owner);
        let files = self.0.files.lock().unwrap();
        if let Some((_, file)) = files.iter().find(|(of, _)| *of == owner) {
            vshmem_sync::wake(&WaitWords::new(Arc::clone(file), 0, 4), slot).unwrap();
        }
    }
}

impl House {
    fn file(&self, owner: WordsOwner) -> Arc<Map> {
        let mut files = self.files.lock().unwrap();
        if let Some((_, file)) = files.iter().find(|(of, _)| *of == owner) {
            return Arc::clone(file);
        }
        files.push((owner, Arc::new(Map::anonymous(65 * 4))));
        Arc::clone(&files.last().unwrap().1)
    }

    fn rung(&self) -> Vec<WordsOwner> {
        std::mem::take(&mut self.rung.lock().unwrap())
    }
}

fn owner(uid: u32, nonce: u32) -> WordsOwner {
    WordsOwner { uid, nonce }
}

fn join_as(house: &Arc<House>, pool: &Arc<Pool>, owner: WordsOwner, pid: u32) -> Client {
    let words = WaitFile::new(house.file(owner), owner, Arc::new(Door(Arc::clone(house))));
    Client::join(Arc::clone(pool), &domain("a"), process(pid), Some(words), WakeScope::Domain)
        .unwrap()
}

/// One sleeps, the other posts. Returns who was woken as another user.
fn handover(house: &House, me: &Client, other: &Client) -> Vec<WordsOwner> {
    let set = me.set(1);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| other.op(set, &[down(0)]));
        until("asleep", || me.waiters(set, 0, false) == 1);
        house.rung();
        me.op(set, &[up(0)]).unwrap();
        waiter.join().unwrap().unwrap();
    });
    me.set_remove(set, &ROOT).unwrap();
    house.rung()
}

#[test]
fn users_of_a_domain_wake_each_other_and_a_single_user_makes_no_call() {
    let (pool, house) = (pool(), Arc::new(House::default()));
    let root = join_as(&house, &pool, owner(0, 0), 10);
    let (one, same) =
        (join_as(&house, &pool, owner(7, 0), 11), join_as(&house, &pool, owner(7, 0), 12));
    assert_eq!(handover(&house, &root, &one), [owner(7, 0)]);
    assert_eq!(handover(&house, &one, &root), [owner(0, 0)]);
    assert_eq!(handover(&house, &one, &same), []);
}

#[test]
fn a_user_whose_name_was_taken_is_found_by_its_number() {
    let (pool, house) = (pool(), Arc::new(House::default()));
    let root = join_as(&house, &pool, owner(0, 0), 10);
    let pushed_aside = join_as(&house, &pool, owner(0, 99), 11);
    assert_eq!(handover(&house, &root, &pushed_aside), [owner(0, 99)]);
    assert_eq!(pool.wait_files_of(0), Ok(vec![99]));
    assert_eq!(pool.wait_files_of(1), Ok(vec![]));
    assert_eq!(handover(&house, &pushed_aside, &root), [owner(0, 0)]);
}

#[test]
fn a_child_sleeps_where_its_parent_did_under_any_user() {
    let (pool, house) = (pool(), Arc::new(House::default()));
    let root = join_as(&house, &pool, owner(0, 0), 10);
    let this_client = join_as(&house, &pool, owner(7, 3), 11);
    let kept = this_client.reserve_child().unwrap();
    // In the child, which has the parent's memory; its process is another user's by now.
    let child = vshmem_ipc::Process { uid: 8, ..process(12) };
    this_client.become_child(Some(kept), child, None).unwrap();
    assert_eq!(handover(&house, &root, &this_client), [owner(7, 3)]);
}

#[test]
fn the_agent_of_one_user_wakes_the_waiters_of_all() {
    let (pool, house) = (pool(), Arc::new(House::default()));
    let agent = join_as(&house, &pool, owner(0, 0), 10);
    let one = join_as(&house, &pool, owner(7, 0), 11);
    let far = Client::join(
        pool.clone(),
        &domain("b"),
        process(20),
        Some(WaitFile::of_one_user(Arc::new(Map::anonymous(65 * 4)))),
        WakeScope::Domain,
    )
    .unwrap();
    let set = far.set(1);
    // Its round, by which it knows that there are others.
    agent.recover_waiters().unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| one.op(set, &[down(0)]));
        until("asleep", || far.waiters(set, 0, false) == 1);
        far.op(set, &[up(0)]).unwrap();
        // As its doorbell would tell it.
        agent.deliver_wakeups();
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn a_waiter_whose_words_are_out_of_reach_looks_by_itself() {
    let (pool, house) = (pool(), Arc::new(House::default()));
    let root = join_as(&house, &pool, owner(0, 0), 10);
    let one = join_as(&house, &pool, owner(7, 0), 11);
    // It has them mapped; no other process finds them.
    house.files.lock().unwrap().retain(|(of, _)| *of != owner(7, 0));
    assert_eq!(handover(&house, &root, &one), [owner(7, 0)]);
}

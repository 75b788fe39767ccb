//! Claims on file locks, without a kernel behind them.

use std::sync::Arc;

use vshmem_ipc::{
    Claimed, Client, Errno, Given, LockClass, LockMode, LockRange, LockRequest, Pool, PosixOpen,
    Settled,
};

use crate::fixture::*;

const MAKE: PosixOpen = PosixOpen {
    read: true,
    write: true,
    create: true,
    exclusive: false,
    truncate: false,
    mode: 0o600,
};

fn open(client: &Client) -> i32 {
    client.posix_shm_open(b"locked", MAKE, &ROOT, &Zeroing(client.pool())).unwrap()
}

fn lock(id: i32, inode: u64, mode: LockMode, start: u64, last: u64) -> LockRequest {
    let range = LockRange { start, last };
    LockRequest { id, inode, file: 3, class: LockClass::Record, mode, range, blocks: true }
}

use LockMode::{Exclusive, Shared};

fn two_domains() -> (Arc<Pool>, Client, Client, i32) {
    let pool = pool();
    let (here, there) = (join(&pool, 10), join_in(&pool, "b", 20));
    let id = open(&here);
    open(&there);
    (pool, here, there, id)
}

#[test]
fn who_is_alone_claims_all_of_it() {
    let (_pool, here, there, id) = two_domains();
    let (mine, theirs) = (lock(id, 1, Exclusive, 5, 9), lock(id, 2, Exclusive, 0, 3));
    let mut hint = u32::MAX;
    assert_eq!(here.lock_is_sole(&mine, &mut hint), Ok(false));
    assert_eq!(here.lock_ask(&mine), Ok(Claimed::Alone));
    assert_eq!(here.lock_is_sole(&mine, &mut hint), Ok(true));
    assert_eq!(there.lock_is_sole(&theirs, &mut 0), Ok(false));
    // flock's are others.
    let whole = LockRequest { class: LockClass::Whole, ..theirs };
    assert_eq!(there.lock_ask(&whole), Ok(Claimed::Alone));
}

#[test]
fn a_claim_goes_over_to_who_wants_it() {
    let (_pool, here, there, id) = two_domains();
    let (mine, theirs) = (lock(id, 1, Exclusive, 5, 9), lock(id, 2, Exclusive, 0, 6));
    assert_eq!(here.lock_ask(&mine), Ok(Claimed::Alone));
    let Ok(Claimed::Asked(want)) = there.lock_ask(&theirs) else { panic!("not asked for") };
    assert_eq!(there.lock_settle(&theirs, want), Ok(Settled::Asked));
    assert_eq!(there.lock_recalls().unwrap(), [], "it is the other domain's");
    let recalls = here.lock_recalls().unwrap();
    assert_eq!(recalls.len(), 1);
    assert_eq!((recalls[0].inode, recalls[0].range), (1, theirs.range));
    assert_eq!(recalls[0].open_in, (10, 3));
    assert_eq!(here.lock_give_up(&recalls[0]), Ok(Given::Up));
    assert_eq!(here.lock_give_up(&recalls[0]), Ok(Given::Unwanted));
    assert_eq!(there.lock_settle(&theirs, want), Ok(Settled::Kept));
    assert_eq!(here.lock_is_sole(&mine, &mut 0), Ok(false));
    // As long as the want is there, the claim stays.
    let Ok(Claimed::Asked(back)) = here.lock_ask(&mine) else { panic!("not asked for") };
    let recall = there.lock_recalls().unwrap()[0];
    assert_eq!(there.lock_give_up(&recall), Ok(Given::InUse));
    there.lock_give_back(want).unwrap();
    assert_eq!(there.lock_give_up(&recall), Ok(Given::Up));
    assert_eq!(here.lock_settle(&mine, back), Ok(Settled::Kept));
    let gaps: Vec<_> = there.lock_uncovered(&theirs).unwrap().collect();
    assert_eq!(gaps, [LockRange { start: 5, last: 6 }]);
}

#[test]
fn a_reader_leaves_readers_their_claim() {
    let (_pool, here, there, id) = two_domains();
    let (mine, theirs) = (lock(id, 1, Shared, 0, 9), lock(id, 2, Shared, 0, 9));
    assert_eq!(here.lock_ask(&mine), Ok(Claimed::Alone));
    let Ok(Claimed::Asked(_)) = there.lock_ask(&theirs) else { panic!("not asked for") };
    assert_eq!(here.lock_give_up(&here.lock_recalls().unwrap()[0]), Ok(Given::Up));
    assert_eq!(here.lock_uncovered(&mine).unwrap().count(), 0);
    assert_eq!(there.lock_uncovered(&theirs).unwrap().count(), 0);
    let upgraded = LockRequest { mode: Exclusive, ..mine };
    assert_eq!(here.lock_uncovered(&upgraded).unwrap().count(), 1);
}

#[test]
fn who_does_not_wait_is_told_what_is_held() {
    let (_pool, here, there, id) = two_domains();
    assert_eq!(here.lock_ask(&lock(id, 1, Shared, 0, 9)), Ok(Claimed::Alone));
    let theirs = LockRequest { blocks: false, ..lock(id, 2, Exclusive, 0, 9) };
    let Ok(Claimed::Asked(want)) = there.lock_ask(&theirs) else { panic!("not asked for") };
    let recall = here.lock_recalls().unwrap()[0];
    let held = LockRange { start: 2, last: 3 };
    here.lock_refuse(&recall, Shared, held).unwrap();
    assert_eq!(there.lock_settle(&theirs, want), Ok(Settled::Held(Shared, held)));
    assert_eq!(there.lock_settle(&theirs, want), Err(Errno::NOLCK), "the want has gone");
    assert_eq!(here.lock_recalls().unwrap(), []);
}

#[test]
fn claims_go_with_their_domain_and_wants_with_their_client() {
    let (_pool, here, there, id) = two_domains();
    let (mine, theirs) = (lock(id, 1, Exclusive, 0, 9), lock(id, 2, Exclusive, 0, 9));
    assert_eq!(there.lock_ask(&theirs), Ok(Claimed::Alone));
    let Ok(Claimed::Asked(want)) = here.lock_ask(&mine) else { panic!("not asked for") };
    here.reap_domain(there.domain()).unwrap();
    assert_eq!(here.lock_settle(&mine, want), Ok(Settled::Kept));
    assert_eq!(there.lock_ask(&theirs), Err(Errno::IO), "it is dead");
}

#[test]
fn a_place_that_nobody_has_open_is_forgotten() {
    let (_pool, here, there, id) = two_domains();
    assert_eq!(here.lock_ask(&lock(id, 1, Exclusive, 0, 9)), Ok(Claimed::Alone));
    let theirs = lock(id, 2, Exclusive, 0, 9);
    let Ok(Claimed::Asked(want)) = there.lock_ask(&theirs) else { panic!("not asked for") };
    here.lock_forget_place(&here.lock_recalls().unwrap()[0]).unwrap();
    assert_eq!(there.lock_settle(&theirs, want), Ok(Settled::Kept));
    there.lock_give_back(want).unwrap();
    assert_eq!(there.lock_ask(&theirs), Ok(Claimed::Alone));
}

const BYTES: u64 = 12;

/// No byte of which one place may grant a lock for writing, and another any.
fn assert_disjoint(clients: [&Client; 3], id: i32) {
    for byte in 0..BYTES {
        let may = |nth: usize, mode| {
            let request = lock(id, nth as u64, mode, byte, byte);
            clients[nth].lock_uncovered(&request).unwrap().count() == 0
        };
        let readers = (0..3).filter(|&nth| may(nth, Shared)).count();
        let writers = (0..3).filter(|&nth| may(nth, Exclusive)).count();
        assert!(writers == 0 || (writers == 1 && readers == 1), "byte {byte}");
    }
}

#[test]
fn whatever_is_asked_and_given_up_claims_do_not_conflict() {
    let (pool, here, there, id) = two_domains();
    let third = join_in(&pool, "c", 30);
    open(&third);
    let clients = [&here, &there, &third];
    let mut seed = 11u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    let mut wants: Vec<(usize, LockRequest, vshmem_ipc::LockWant)> = Vec::new();
    for _ in 0..3000 {
        let nth = random(3) as usize;
        match random(4) {
            0 => {
                let (a, b) = (random(BYTES), random(BYTES));
                let mode = if random(2) == 0 { Shared } else { Exclusive };
                let request = lock(id, nth as u64, mode, a.min(b), a.max(b));
                match clients[nth].lock_ask(&request) {
                    Ok(Claimed::Kept(want) | Claimed::Asked(want)) => {
                        wants.push((nth, request, want));
                    }
                    Ok(Claimed::Alone) | Err(Errno::NOLCK) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            1 if !wants.is_empty() => {
                let (nth, _, want) = wants.swap_remove(random(wants.len() as u64) as usize);
                clients[nth].lock_give_back(want).unwrap();
            }
            2 => {
                let recalls = clients[nth].lock_recalls().unwrap();
                if let Some(recall) = recalls.first() {
                    let given = clients[nth].lock_give_up(recall);
                    assert!(matches!(given, Ok(_) | Err(Errno::NOLCK)), "{given:?}");
                }
            }
            _ => {
                for (nth, request, want) in &wants {
                    let settled = clients[*nth].lock_settle(request, *want);
                    assert!(matches!(settled, Ok(_) | Err(Errno::NOLCK)), "{settled:?}");
                    let kept = settled == Ok(Settled::Kept);
                    let gaps = clients[*nth].lock_uncovered(request).unwrap().count();
                    assert!(!kept || gaps == 0, "{request:?}");
                }
            }
        }
        assert_disjoint(clients, id);
    }
    assert!(here.pool().check().unwrap().is_empty());
}

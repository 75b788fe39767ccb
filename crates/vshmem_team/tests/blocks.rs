//! Blocks of members for each other, and calls that are started: members as threads.

use std::sync::Arc;

use vshmem_mem::{Map, Ordering};
use vshmem_team::{Person, Shape, Started, Team, TeamError};

const HERE: Person = Person { domain: 7, pid: 1, start: 1 };

/// Processes of even pids have ended.
fn even_are_gone(pid: u32, _start: u64) -> bool {
    pid.is_multiple_of(2)
}

fn memory(members: u32, payload: u64) -> (Arc<Map>, Shape) {
    let shape = Shape::new(members, payload).unwrap();
    (Arc::new(Map::anonymous(shape.bytes() as usize)), shape)
}

/// Runs a member in a thread each.
fn all(members: u32, payload: u64, run: impl Fn(Team) + Sync) {
    let (map, shape) = memory(members, payload);
    std::thread::scope(|scope| {
        for rank in 0..members {
            let (map, run) = (&map, &run);
            scope.spawn(move || run(Team::join(map, shape, rank, HERE, even_are_gone).unwrap()));
        }
    });
}

/// What a member has for another one, in a call.
fn block(from: u32, to: u32, nth: usize, bytes: usize) -> Vec<u8> {
    let first = from as usize * 31 + to as usize * 7 + nth;
    (0..bytes).map(|at| (first + at * 3) as u8).collect()
}

fn blocks(members: u32, of: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    (0..members).flat_map(of).collect()
}

/// A row of blocks of which only that of one member is filled in.
fn only(rank: u32, members: u32, bytes: usize, own: &[u8]) -> Vec<u8> {
    blocks(members, |of| if of == rank { own.to_vec() } else { vec![0xee; bytes] })
}

#[test]
fn each_gets_the_blocks_of_all_in_pieces_and_in_place_too() {
    for members in [1, 2, 3, 6] {
        all(members, 64, |mut team| {
            let rank = team.rank();
            for nth in 0..60_usize {
                let bytes = nth * 13 % 170;
                let wanted = blocks(members, |from| block(from, 0, nth, bytes));
                let mine = block(rank, 0, nth, bytes);
                let mut got = vec![0xee; bytes * members as usize];
                team.allgather(Some(&mine), &mut got).unwrap();
                assert_eq!(got, wanted);
                let mut got = only(rank, members, bytes, &mine);
                team.allgather(None, &mut got).unwrap();
                assert_eq!(got, wanted);

                let wanted = blocks(members, |from| block(from, rank, nth, bytes));
                let given = blocks(members, |to| block(rank, to, nth, bytes));
                let mut got = vec![0xee; given.len()];
                team.alltoall(Some(&given), &mut got).unwrap();
                assert_eq!(got, wanted);
                let mut got = given.clone();
                team.alltoall(None, &mut got).unwrap();
                assert_eq!(got, wanted);
            }
        });
    }
}

#[test]
fn the_root_gets_what_all_give_and_each_what_the_root_has_for_it() {
    for members in [1, 2, 3, 6] {
        all(members, 64, |mut team| {
            let rank = team.rank();
            for nth in 0..80_usize {
                let (bytes, root) = (nth * 13 % 170, nth as u32 % members);
                let mine = block(rank, root, nth, bytes);
                let row = blocks(members, |to| block(root, to, nth, bytes));
                if rank == root {
                    let wanted = blocks(members, |from| block(from, root, nth, bytes));
                    let mut got = only(rank, members, bytes, &mine);
                    team.gather((nth % 2 == 0).then_some(&mine), &mut got).unwrap();
                    assert_eq!(got, wanted);
                    team.scatter(&row).unwrap();
                } else {
                    team.give(root, &mine).unwrap();
                    let mut got = vec![0xee; bytes];
                    team.take_block(root, &mut got).unwrap();
                    assert_eq!(got, block(root, rank, nth, bytes));
                }
            }
        });
    }
}

/// More are under way than a member has slots, and some run ahead.
#[test]
fn started_calls_are_done_in_their_order_however_many_are_under_way() {
    const AT_ONCE: usize = 11;
    for members in [1, 2, 3, 5] {
        all(members, 64, |mut team| {
            let rank = team.rank();
            for round in 0..30 {
                let bytes = (round * 3 + 1) % 16;
                let gathered = blocks(members, |from| block(from, 0, round, bytes));
                let exchanged = blocks(members, |from| block(from, rank, round, bytes));
                let given = blocks(members, |to| block(rank, to, round, bytes));
                let own = only(rank, members, bytes, &block(rank, 0, round, bytes));
                let mut started: Vec<(Started, Vec<u8>, bool)> = (0..AT_ONCE)
                    .map(|nth| {
                        let data = match nth % 4 {
                            0 => own.clone(),
                            1 => given.clone(),
                            2 => vec![rank as u8 + 1; bytes],
                            _ => block(rank, 9, round, bytes),
                        };
                        (team.start(), data, false)
                    })
                    .collect();
                let root = round as u32 % members;
                while started.iter().any(|(_, _, done)| !done) {
                    for (nth, (call, data, done)) in started.iter_mut().enumerate() {
                        let mut sum = |earlier: &[u8], later: &mut [u8]| {
                            later.iter_mut().zip(earlier).for_each(|(later, earlier)| {
                                *later = later.wrapping_add(*earlier);
                            });
                        };
                        *done = *done
                            || match nth % 4 {
                                0 => team.poll_allgather(call, data),
                                1 => team.poll_alltoall(call, None, data),
                                2 => team.poll_allreduce_by(call, data, 1, &mut sum),
                                _ => team.poll_broadcast(call, root, data),
                            }
                            .unwrap();
                    }
                    std::thread::yield_now();
                }
                for (nth, (_, data, _)) in started.iter().enumerate() {
                    match nth % 4 {
                        0 => assert_eq!(*data, gathered),
                        1 => assert_eq!(*data, exchanged),
                        2 => assert_eq!(*data, vec![(members * (members + 1) / 2) as u8; bytes]),
                        _ => assert_eq!(*data, block(root, 9, round, bytes)),
                    }
                }
                // Calls of the other kind may follow.
                team.barrier().unwrap();
                let mut own = own;
                team.allgather(None, &mut own).unwrap();
                assert_eq!(own, gathered);
            }
        });
    }
}

fn waits() {
    panic!("it waits");
}

/// Then it would call what its caller does meanwhile, which may look after the same call.
#[test]
fn a_started_call_does_not_wait_for_a_text_that_is_taken_back() {
    let (map, shape) = memory(3, 8);
    let mut teams: Vec<Team> =
        (0..3).map(|rank| Team::join(&map, shape, rank, HERE, even_are_gone).unwrap()).collect();
    let mut sum = |_: &[u8], _: &mut [u8]| {};
    for team in &mut teams[1..] {
        let mut call = team.start();
        assert!(!team.poll_allreduce_by(&mut call, &mut [1; 8], 1, &mut sum).unwrap());
    }
    let mut call = teams[0].start();
    teams[0].set_idle(Some(Box::new(waits)));
    // While the texts of others are combined, all of them go.
    let mut clear = |_: &[u8], _: &mut [u8]| {
        for at in (0..shape.bytes()).step_by(8) {
            map.store(at, 0, Ordering::Release).unwrap();
        }
    };
    let done = teams[0].poll_allreduce_by(&mut call, &mut [1; 8], 1, &mut clear);
    assert_eq!(done, Err(TeamError::Corrupt(2)));
}

#[test]
fn a_started_call_fails_when_a_member_is_dead_or_makes_another_one() {
    let (map, shape) = memory(2, 8);
    let mut team = Team::join(&map, shape, 0, HERE, even_are_gone).unwrap();
    let _dead = Team::join(&map, shape, 1, Person { pid: 2, ..HERE }, even_are_gone).unwrap();
    let mut call = team.start();
    let error = loop {
        match team.poll_allgather(&mut call, &mut [0; 16]) {
            Ok(done) => assert!(!done),
            Err(error) => break error,
        }
    };
    assert_eq!(error, TeamError::Dead(1));

    all(2, 8, |mut team| {
        let mut call = team.start();
        let rank = team.rank();
        let error = loop {
            let mut data = [0; 8];
            let done = match rank {
                0 => team.poll_allgather(&mut call, &mut data),
                _ => team.poll_alltoall(&mut call, None, &mut data),
            };
            match done {
                Ok(true) => break None,
                Ok(false) => std::thread::yield_now(),
                Err(error) => break Some(error),
            }
        };
        assert!(matches!(error, Some(TeamError::Mismatch(_))), "{error:?}");
        assert!(team.failure().is_some());
    });
}

//! Members as threads: results, order, lateness, failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use vshmem_mem::{Map, Ordering};
use vshmem_team::{JoinError, Number, Operation, Person, Shape, Team, TeamError};

const HERE: Person = Person { domain: 7, pid: 1, start: 1 };

/// Processes of even pids have ended.
fn even_are_gone(pid: u32, _start: u64) -> bool {
    pid.is_multiple_of(2)
}

fn memory(members: u32, payload: u64) -> (Arc<Map>, Shape) {
    let shape = Shape::new(members, payload).unwrap();
    (Arc::new(Map::anonymous(shape.bytes() as usize)), shape)
}

fn join(map: &Arc<Map>, shape: Shape, rank: u32) -> Team {
    Team::join(map, shape, rank, HERE, even_are_gone).unwrap()
}

/// Runs a member in a thread each.
fn all(members: u32, payload: u64, run: impl Fn(Team) + Sync) -> Arc<Map> {
    let (map, shape) = memory(members, payload);
    std::thread::scope(|scope| {
        for rank in 0..members {
            let (map, run) = (&map, &run);
            scope.spawn(move || run(join(map, shape, rank)));
        }
    });
    map
}

fn numbers(rank: u32, count: usize) -> Vec<u8> {
    (0..count as i64).flat_map(|nth| (nth * 3 + i64::from(rank)).to_ne_bytes()).collect()
}

#[test]
fn no_member_passes_a_barrier_before_all_have_come() {
    for members in [1, 2, 3, 5, 8, 17] {
        let came = AtomicU64::new(0);
        all(members, 8, |mut team| {
            for round in 1..=200 {
                came.fetch_add(1, SeqCst);
                team.barrier().unwrap();
                assert!(came.load(SeqCst) >= round * u64::from(members));
                assert!(came.load(SeqCst) <= (round + 1) * u64::from(members));
            }
        });
    }
}

#[test]
fn everybody_gets_what_each_root_has_in_pieces_too() {
    for members in [1, 2, 3, 6] {
        all(members, 64, |mut team| {
            for nth in 0..300_usize {
                let root = nth as u32 % team.shape().members();
                let bytes = nth * 7 % 700;
                let text: Vec<u8> = (0..bytes).map(|at| (at * 5 + nth) as u8).collect();
                let mut data = if team.rank() == root { text.clone() } else { vec![0; bytes] };
                team.broadcast(root, &mut data).unwrap();
                assert_eq!(data, text);
            }
        });
    }
}

#[test]
fn sums_are_right_at_the_root_and_everywhere() {
    for members in [1, 2, 3, 4, 7] {
        all(members, 64, |mut team| {
            let n = i64::from(team.shape().members());
            for nth in 0..200_usize {
                let count = nth * 3 % 50;
                let wanted: Vec<u8> = (0..count as i64)
                    .flat_map(|at| (n * at * 3 + n * (n - 1) / 2).to_ne_bytes())
                    .collect();
                let root = nth as u32 % team.shape().members();
                let mut data = numbers(team.rank(), count);
                if team.rank() == root {
                    team.collect(&mut data, Number::Int64, Operation::Sum).unwrap();
                    assert_eq!(data, wanted);
                } else {
                    team.contribute(root, &data, Number::Int64, Operation::Sum).unwrap();
                }
                let mut data = numbers(team.rank(), count);
                team.allreduce(&mut data, Number::Int64, Operation::Sum).unwrap();
                assert_eq!(data, wanted);
            }
        });
    }
}

/// Things that only the caller knows, here matrices of 2 x 2 numbers, whose product depends on the
/// order.
#[test]
fn things_of_the_caller_are_made_one_in_the_order_of_ranks() {
    type Matrix = [u64; 4];
    let unpack = |bytes: &[u8]| -> Matrix {
        std::array::from_fn(|at| u64::from_ne_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap()))
    };
    let pack = |matrix: Matrix| matrix.iter().flat_map(|n| n.to_ne_bytes()).collect::<Vec<u8>>();
    let product = |[a, b, c, d]: Matrix, [e, f, g, h]: Matrix| -> Matrix {
        [
            a.wrapping_mul(e).wrapping_add(b.wrapping_mul(g)),
            a.wrapping_mul(f).wrapping_add(b.wrapping_mul(h)),
            c.wrapping_mul(e).wrapping_add(d.wrapping_mul(g)),
            c.wrapping_mul(f).wrapping_add(d.wrapping_mul(h)),
        ]
    };
    let fold = |earlier: &[u8], later: &mut [u8]| {
        for (earlier, later) in earlier.chunks(32).zip(later.chunks_mut(32)) {
            let both = product(unpack(earlier), unpack(later));
            later.copy_from_slice(&pack(both));
        }
    };
    let of = |rank: u32, nth: u64| [nth + 1, u64::from(rank), 3, nth ^ u64::from(rank)];
    for members in [1, 2, 4, 6] {
        // Two at once, and a rest of 8 bytes that stays empty.
        all(members, 72, |mut team| {
            let mut fold = fold;
            let wanted: Vec<u8> = (0..5)
                .flat_map(|nth| {
                    let mine = (1..members).map(|rank| of(rank, nth));
                    pack(mine.fold(of(0, nth), product))
                })
                .collect();
            let mine: Vec<u8> = (0..5).flat_map(|nth| pack(of(team.rank(), nth))).collect();
            for root in 0..members {
                let mut data = mine.clone();
                team.allreduce_by(&mut data, 32, &mut fold).unwrap();
                assert_eq!(data, wanted);
                if team.rank() == root {
                    let mut data = mine.clone();
                    team.collect_by(&mut data, 32, &mut fold).unwrap();
                    assert_eq!(data, wanted);
                } else {
                    team.contribute_by(root, &mine, 32).unwrap();
                }
            }
        });
    }
}

/// The waiting member makes it happen itself: here the other member acts when it is asked to.
#[test]
fn a_waiting_member_does_what_its_caller_has_to_do() {
    let asked = Arc::new(AtomicU64::new(0));
    all(2, 8, |mut team| {
        if team.rank() == 0 {
            let asked = Arc::clone(&asked);
            team.set_timeout(Duration::MAX);
            team.set_idle(Some(Box::new(move || {
                asked.fetch_add(1, SeqCst);
            })));
        } else {
            // Longer than the clock is not read for.
            while asked.load(SeqCst) < 5000 {
                std::thread::yield_now();
            }
        }
        team.barrier().unwrap();
    });
}

#[test]
fn a_busy_member_notices_that_another_one_is_dead() {
    let (map, shape) = memory(2, 8);
    let mut team = join(&map, shape, 0);
    let _dead = Team::join(&map, shape, 1, Person { pid: 2, ..HERE }, even_are_gone).unwrap();
    team.set_timeout(Duration::MAX);
    team.set_idle(Some(Box::new(std::thread::yield_now)));
    assert_eq!(team.barrier(), Err(TeamError::Dead(1)));
}

#[test]
fn a_member_that_wants_to_wait_no_longer_has_left() {
    let (map, shape) = memory(2, 8);
    let (mut team, mut other) = (join(&map, shape, 0), join(&map, shape, 1));
    let mut asked = 0;
    team.set_timeout(Duration::MAX);
    team.set_stop(Some(Box::new(move || {
        asked += 1;
        asked == 2
    })));
    assert_eq!(team.barrier(), Err(TeamError::Left(0)));
    // The first had come to this one before it gave up.
    assert_eq!(other.barrier(), Ok(()));
    assert_eq!(other.barrier(), Err(TeamError::Left(0)));
}

/// Some run ahead of others in calls that do not need those, roots change, and all is mixed.
#[test]
fn calls_of_all_kinds_follow_each_other() {
    all(5, 16, |mut team| {
        for nth in 0..400_u32 {
            let (root, other) = (nth % 5, (nth + 2) % 5);
            let mut word = (u64::from(team.rank()) + 1).to_ne_bytes();
            if team.rank() == root {
                team.collect(&mut word, Number::Uint64, Operation::Product).unwrap();
                assert_eq!(u64::from_ne_bytes(word), 120);
            } else {
                team.contribute(root, &word, Number::Uint64, Operation::Product).unwrap();
            }
            let mut text = if team.rank() == other { [nth as u8; 40] } else { [0; 40] };
            team.broadcast(other, &mut text).unwrap();
            assert_eq!(text, [nth as u8; 40]);
            if nth % 7 == 0 {
                team.barrier().unwrap();
            }
        }
    });
}

/// All get the same bytes even where the order matters.
#[test]
fn floating_sums_are_the_same_for_all() {
    for members in [3, 6] {
        let seen = std::sync::Mutex::new(Vec::new());
        all(members, 256, |mut team| {
            let mine = 0.1_f64 * f64::from(team.rank() + 1).powi(9);
            let mut data: Vec<u8> = (0..30).flat_map(|_| mine.to_ne_bytes()).collect();
            team.allreduce(&mut data, Number::Double, Operation::Sum).unwrap();
            seen.lock().unwrap().push(data);
        });
        let seen = seen.into_inner().unwrap();
        assert!(seen.iter().all(|data| *data == seen[0]));
    }
}

#[test]
fn a_late_member_finds_what_was_written_before_it_came() {
    let (map, shape) = memory(2, 16);
    let has_posted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut team = join(&map, shape, 0);
            for nth in 0..2_u8 {
                team.broadcast(0, &mut [nth; 10]).unwrap();
            }
            has_posted.store(1, SeqCst);
            team.barrier().unwrap();
        });
        while has_posted.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        let mut team = join(&map, shape, 1);
        for nth in 0..2_u8 {
            let mut text = [77; 10];
            team.broadcast(0, &mut text).unwrap();
            assert_eq!(text, [nth; 10]);
        }
        team.barrier().unwrap();
    });
}

#[test]
fn who_is_missing_is_named_to_all_and_the_team_has_ended() {
    let (map, shape) = memory(4, 8);
    let mut teams: Vec<_> = [0, 1, 3].map(|rank| join(&map, shape, rank)).into();
    for team in &mut teams {
        team.set_timeout(Duration::from_millis(50));
    }
    std::thread::scope(|scope| {
        for team in &mut teams {
            scope.spawn(|| assert_eq!(team.barrier(), Err(TeamError::Missing(2))));
        }
    });
    for team in &mut teams {
        assert_eq!(team.broadcast(0, &mut [0; 4]), Err(TeamError::Missing(2)));
        assert!(team.explain(TeamError::Missing(2)).contains("which has never joined"));
    }
    let late = Team::join(&map, shape, 2, HERE, even_are_gone).unwrap_err();
    assert_eq!(late, JoinError::Ended(TeamError::Missing(2)));
}

/// As a job is at its terminal, for longer than its members' timeout.
#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn members_that_were_stopped_together_go_on() {
    all(2, 8, |mut team| {
        team.set_timeout(Duration::from_secs(2));
        if team.rank() == 1 {
            // The other one is the first to go on.
            let stop = "kill -STOP $PPID; sleep 2.5; kill -CONT $PPID; sleep 0.3";
            let stopped = std::process::Command::new("sh").args(["-c", stop]).status().unwrap();
            assert!(stopped.success());
        }
        team.barrier().unwrap();
    });
}

/// With the timeout of a day: only the death can end it.
#[test]
fn a_dead_member_of_the_own_domain_is_noticed() {
    for kind in 0..3 {
        let (map, shape) = memory(3, 8);
        let dead = Person { pid: 2, ..HERE };
        drop(Team::join(&map, shape, 1, dead, even_are_gone).unwrap());
        std::thread::scope(|scope| {
            for rank in [0, 2] {
                let mut team = join(&map, shape, rank);
                team.set_timeout(Duration::from_secs(86400));
                scope.spawn(move || {
                    let answer = match kind {
                        0 => team.barrier(),
                        1 => team.broadcast(1, &mut [0; 8]),
                        _ => team.allreduce(&mut [0; 8], Number::Double, Operation::Max),
                    };
                    assert_eq!(answer, Err(TeamError::Dead(1)));
                });
            }
        });
    }
}

#[test]
fn what_a_dead_member_wrote_last_still_counts() {
    let (map, shape) = memory(2, 8);
    let dead = Person { pid: 2, ..HERE };
    let mut first = Team::join(&map, shape, 1, dead, even_are_gone).unwrap();
    first.broadcast(1, &mut [5; 8]).unwrap();
    drop(first);
    let mut team = join(&map, shape, 0);
    let mut text = [0; 8];
    team.broadcast(1, &mut text).unwrap();
    assert_eq!(text, [5; 8]);
    assert_eq!(team.barrier(), Err(TeamError::Dead(1)));
}

#[test]
fn a_member_that_has_left_is_an_error_when_it_is_needed() {
    let (map, shape) = memory(2, 8);
    join(&map, shape, 1).leave();
    let mut team = join(&map, shape, 0);
    assert_eq!(team.barrier(), Err(TeamError::Left(1)));
}

#[test]
fn the_memory_can_be_used_again_when_all_have_left() {
    let (map, shape) = memory(3, 100);
    for _ in 0..20 {
        std::thread::scope(|scope| {
            for rank in 0..3 {
                let map = &map;
                scope.spawn(move || {
                    let mut team = join(map, shape, rank);
                    team.broadcast(1, &mut [1; 300]).unwrap();
                    team.barrier().unwrap();
                    team.leave();
                });
            }
        });
        let mut bytes = vec![1; shape.bytes() as usize];
        map.read(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn calls_that_differ_are_noticed() {
    all(2, 64, |mut team| {
        team.set_timeout(Duration::from_secs(86400));
        let mut text = vec![0; 8 + 8 * team.rank() as usize];
        let answer = team.allreduce(&mut text, Number::Int64, Operation::Sum);
        assert!(matches!(answer, Err(TeamError::Mismatch(_))), "{answer:?}");
    });
}

#[test]
fn a_member_that_cannot_join_gets_the_reason() {
    let (map, shape) = memory(2, 8);
    let _first = join(&map, shape, 0);
    let refused = |shape, rank| Team::join(&map, shape, rank, HERE, even_are_gone).unwrap_err();
    assert_eq!(refused(shape, 0), JoinError::Taken);
    assert_eq!(refused(shape, 2), JoinError::Invalid);
    assert_eq!(refused(Shape::new(1, 8).unwrap(), 0), JoinError::Mismatch);
    assert_eq!(refused(Shape::new(2, 4096).unwrap(), 0), JoinError::Invalid);
}

/// A member that writes anything anywhere, all the time: calls end, with whatever answer.
#[test]
fn nonsense_ends_a_team_and_nothing_else() {
    for seed in 1..40_u64 {
        let (map, shape) = memory(3, 64);
        let goes_on = AtomicU64::new(2);
        std::thread::scope(|scope| {
            for rank in 0..2 {
                let goes_on = &goes_on;
                let mut team = join(&map, shape, rank);
                scope.spawn(move || {
                    team.set_timeout(Duration::from_millis(30));
                    for nth in 0..1000_u32 {
                        let mut data = [1; 200];
                        let answer = match nth % 3 {
                            0 => team.broadcast(nth % 3, &mut data),
                            1 => team.allreduce(&mut data, Number::Int32, Operation::Xor),
                            _ => team.barrier(),
                        };
                        if answer.is_err() {
                            break;
                        }
                    }
                    goes_on.fetch_sub(1, SeqCst);
                });
            }
            let mut word = seed;
            while goes_on.load(SeqCst) > 0 {
                word = word.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = word % (shape.bytes() / 8) * 8;
                map.store(at, word >> (word % 64), Ordering::Relaxed).unwrap();
            }
        });
    }
}

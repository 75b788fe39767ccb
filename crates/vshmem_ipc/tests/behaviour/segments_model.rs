//! Random makings and removals against a model that is a plain list.

use crate::fixture::*;
use proptest::prelude::*;
use vshmem_ipc::Errno;

#[derive(Debug, Clone)]
enum Step {
    Make(u64),
    Remove(usize),
    Attach(usize),
    Detach(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1u64..40 * 4096).prop_map(Step::Make),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => any::<usize>().prop_map(Step::Attach),
        1 => any::<usize>().prop_map(Step::Detach),
    ]
}

struct Known {
    id: i32,
    first: u64,
    pages: u64,
    attached: u32,
    removed: bool,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn extents_never_overlap_and_all_come_back(steps in prop::collection::vec(step(), 1..80)) {
        let pool = pool();
        let me = join(&pool, 10);
        let mut known: Vec<Known> = Vec::new();
        for step in steps {
            let at = |n: usize| (!known.is_empty()).then(|| n % known.len());
            match step {
                Step::Make(size) => {
                    let pages = size.div_ceil(4096);
                    match me.segment(PRIVATE, size, 0) {
                        Ok(id) => {
                            let first = me.shmat(id, true, false, &ROOT).unwrap().offset;
                            me.shmdt(id).unwrap();
                            for other in &known {
                                let apart = first + pages * 4096 <= other.first
                                    || other.first + other.pages * 4096 <= first;
                                prop_assert!(apart);
                            }
                            known.push(Known { id, first, pages, attached: 0, removed: false });
                        }
                        Err(error) => {
                            prop_assert_eq!(error, Errno::NOSPC);
                            let slots = known.len() >= 16;
                            let room = room(&pool);
                            prop_assert!(slots || room.largest_free < pages, "{:?}", room);
                        }
                    }
                }
                Step::Remove(n) => if let Some(n) = at(n) {
                    me.segment_remove(known[n].id, &ROOT).unwrap();
                    known[n].removed = true;
                    if known[n].attached == 0 {
                        known.swap_remove(n);
                    }
                },
                Step::Attach(n) => if let Some(n) = at(n) {
                    let place = me.shmat(known[n].id, true, false, &ROOT).unwrap();
                    prop_assert_eq!(place.offset, known[n].first);
                    known[n].attached += 1;
                },
                Step::Detach(n) => if let Some(n) = at(n) {
                    let detached = me.shmdt(known[n].id);
                    if known[n].attached == 0 {
                        prop_assert_eq!(detached, Err(Errno::INVAL));
                    } else {
                        detached.unwrap();
                        known[n].attached -= 1;
                        if known[n].attached == 0 && known[n].removed {
                            known.swap_remove(n);
                        }
                    }
                },
            }
            sound(&pool);
            let pages: u64 = known.iter().map(|k| k.pages).sum();
            prop_assert_eq!(u64::from(me.shm_info().unwrap().pages), pages);
        }
        for left in &known {
            me.segment_remove(left.id, &ROOT).unwrap();
        }
        empty(&pool, &me);
    }
}

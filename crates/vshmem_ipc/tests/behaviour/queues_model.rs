//! Random sends and receives of two members against a model that is a plain list.

use std::collections::VecDeque;

use crate::fixture::*;
use proptest::prelude::*;
use vshmem_ipc::{Client, Errno, Receive};

#[derive(Debug, Clone)]
enum Step {
    Send {
        kind: i64,
        size: usize,
    },
    /// So many short messages.
    Burst(usize),
    Receive {
        mtype: i64,
        except: bool,
        room: usize,
        cut: bool,
    },
    Copy(i64),
    Limit(u64),
}

fn step() -> impl Strategy<Value = (bool, Step)> {
    let size = prop_oneof![
        6 => 0_usize..40,
        3 => 490_usize..530,
        2 => prop::sample::select(vec![255, 256, 257, 512, 513, 1112, 1113, 3000, 8192]),
    ];
    let room = prop_oneof![4 => Just(8192_usize), 1 => 0_usize..500];
    let kind = prop_oneof![3 => Just(0_i64), 3 => 1_i64..4, 1 => -4_i64..0];
    let limit = prop::sample::select(vec![0, 100, 4095, 4096, 16384]);
    let step = prop_oneof![
        9 => (1_i64..4, size).prop_map(|(kind, size)| Step::Send { kind, size }),
        9 => (kind, prop::bool::weighted(0.1), room, prop::bool::weighted(0.1))
            .prop_map(|(kind, except, room, cut)| Step::Receive { mtype: kind, except, room, cut }),
        1 => (1_usize..80).prop_map(Step::Burst),
        1 => (0_i64..10).prop_map(Step::Copy),
        1 => limit.prop_map(Step::Limit),
    ];
    (any::<bool>(), step)
}

/// A queue as msgop(2) tells it.
struct Model {
    messages: VecDeque<(i64, Vec<u8>)>,
    limit: u64,
    sent: u8,
}

impl Model {
    fn bytes(&self) -> usize {
        self.messages.iter().map(|message| message.1.len()).sum()
    }

    fn send(&mut self, kind: i64, size: usize) -> (Vec<u8>, Result<(), Errno>) {
        self.sent = self.sent.wrapping_add(1);
        let text = vec![self.sent; size];
        let fits =
            (self.bytes() + size) as u64 <= self.limit && (self.messages.len() as u64) < self.limit;
        if fits {
            self.messages.push_back((kind, text.clone()));
        }
        (text, if fits { Ok(()) } else { Err(Errno::AGAIN) })
    }

    fn find(&self, kind: i64, except: bool) -> Option<usize> {
        let first = |accepts: &dyn Fn(i64) -> bool| {
            self.messages.iter().position(|message| accepts(message.0))
        };
        match kind {
            0 => first(&|_| true),
            ..0 => {
                let lowest = self.messages.iter().map(|message| message.0).min()?;
                first(&|other| other == lowest && other <= -kind)
            }
            _ if except => first(&|other| other != kind),
            _ => first(&|other| other == kind),
        }
    }

    fn receive(&mut self, wanted: Receive) -> Result<(i64, Vec<u8>), Errno> {
        let at = self.find(wanted.mtype, wanted.except).ok_or(Errno::NOMSG)?;
        if self.messages[at].1.len() > wanted.room && !wanted.cut {
            return Err(Errno::TOOBIG);
        }
        let (kind, mut text) = self.messages.remove(at).expect("it was there");
        text.truncate(wanted.room);
        Ok((kind, text))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_queue_is_what_a_list_of_messages_would_be(
        is_long in any::<bool>(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let pool = pool();
        let all_clients = [join(&pool, 10), join_in(&pool, "b", 11)];
        let id = all_clients[0].queue();
        if is_long {
            lengthen_ring(&all_clients[0], id);
        }
        let mut model = Model { messages: VecDeque::new(), limit: 16384, sent: 0 };
        for (second, step) in steps {
            let me: &Client = &all_clients[usize::from(second)];
            match step {
                Step::Send { kind, size } => {
                    let (text, expected) = model.send(kind, size);
                    prop_assert_eq!(me.send_now(id, kind, &text), expected);
                }
                Step::Burst(messages) => {
                    for nth in 0..messages {
                        let (text, expected) = model.send(1 + nth as i64 % 3, 8);
                        prop_assert_eq!(me.send_now(id, 1 + nth as i64 % 3, &text), expected);
                    }
                }
                Step::Receive { mtype: kind, except, room, cut } => {
                    let wanted = Receive { room, no_wait: true, except, cut, ..of_type(kind) };
                    prop_assert_eq!(me.receive_as(id, wanted), model.receive(wanted));
                }
                Step::Copy(nth) => {
                    let wanted = Receive { no_wait: true, copy: true, ..of_type(nth) };
                    let expected = model.messages.get(nth as usize).cloned().ok_or(Errno::NOMSG);
                    prop_assert_eq!(me.receive_as(id, wanted), expected);
                }
                Step::Limit(limit) => {
                    me.queue_change(id, 0, 0, 0o600, limit, &ROOT).unwrap();
                    model.limit = limit;
                }
            }
            let stat = me.queue_stat(id, &ROOT).unwrap();
            prop_assert_eq!(stat.count as usize, model.messages.len());
            prop_assert_eq!(stat.bytes as usize, model.bytes());
            sound(&pool);
        }
        // A sender may end: its message stays.
        all_clients[0].reap(all_clients[1].client_id()).unwrap();
        sound(&pool);
        while let Some(expected) = model.messages.pop_front() {
            prop_assert_eq!(all_clients[0].receive_now(id, 0), Ok(expected));
        }
        prop_assert_eq!(all_clients[0].receive_now(id, 0), Err(Errno::NOMSG));
        all_clients[0].queue_remove(id, &ROOT).unwrap();
        empty(&pool, &all_clients[0]);
    }
}

//! Streams of numbered messages: each comes once, whole, and in its turn.

use std::sync::Arc;
use std::thread::Scope;

use crate::fixture::*;
use vshmem_ipc::{Client, Pool};

/// How a stream is sent.
#[derive(Debug, Clone, Copy)]
struct Stream {
    /// The type of its messages.
    kind: i64,
    messages: u64,
    /// Every so many messages one does not fit into a slot of the ring; 0: none.
    long_ones: u64,
}

impl Stream {
    fn text(self, n: u64) -> Vec<u8> {
        let mut text = n.to_le_bytes().to_vec();
        if self.long_ones != 0 && n.is_multiple_of(self.long_ones) {
            text.resize(40, self.kind as u8);
        }
        text
    }

    fn send<'s>(self, scope: &'s Scope<'s, '_>, client: &'s Client, id: i32) {
        scope.spawn(move || {
            for n in 1..=self.messages {
                client.send(id, self.kind, &self.text(n)).unwrap();
            }
        });
    }

    /// Receives all of it; `wanted` is the type that is asked for.
    fn receive(self, client: &Client, id: i32, wanted: i64) {
        for n in 1..=self.messages {
            let got = client.receive(id, wanted).unwrap();
            let is_it = got == (self.kind, self.text(n));
            or_end(client, id, is_it, || format!("message {n} did not come in its turn: {got:x?}"));
        }
    }
}

/// Fails and removes the queue, so that nobody waits at it for ever.
fn or_end(client: &Client, id: i32, is_right: bool, what: impl FnOnce() -> String) {
    if !is_right {
        let _ = client.queue_remove(id, &ROOT);
        panic!("{}", what());
    }
}

fn clients(pool: &Arc<Pool>, count: u32) -> Vec<Client> {
    let domains = ["a", "a", "b", "b"];
    (0..count).map(|n| join_in(pool, domains[n as usize % 4], 10 + n)).collect()
}

#[test]
fn a_stream_comes_in_order_in_each_of_several_lives_of_a_queue() {
    for (life, long_ones) in [0, 0, 1, 7, 100].into_iter().enumerate() {
        let pool = pool();
        let all = clients(&pool, 2);
        let id = all[0].queue();
        let stream = Stream { kind: 1 + life as i64, messages: 60_000, long_ones };
        std::thread::scope(|scope| {
            stream.send(scope, &all[0], id);
            stream.receive(&all[1], id, 0);
        });
        sound(&pool);
        all[1].queue_remove(id, &ROOT).unwrap();
        empty(&pool, &all[0]);
    }
}

#[test]
fn streams_of_two_types_come_in_order_to_receivers_of_their_own() {
    for long_ones in [0, 9] {
        let pool = pool();
        let all = clients(&pool, 4);
        let id = all[0].queue();
        let streams = [5, 4711].map(|kind| Stream { kind, messages: 30_000, long_ones });
        std::thread::scope(|scope| {
            for (stream, pair) in streams.into_iter().zip(all.chunks(2)) {
                stream.send(scope, &pair[0], id);
                scope.spawn(move || stream.receive(&pair[1], id, stream.kind));
            }
        });
        sound(&pool);
        all[0].queue_remove(id, &ROOT).unwrap();
        empty(&pool, &all[0]);
    }
}

/// Of two senders, two receivers of any type: each sees the messages of one sender in order, and
/// all come once.
#[test]
fn streams_of_two_senders_come_once_and_in_order_to_any_two_receivers() {
    const MESSAGES: u64 = 30_000;
    let pool = pool();
    let all = clients(&pool, 4);
    let id = all[0].queue();
    let mut got: Vec<(i64, u64)> = std::thread::scope(|scope| {
        for kind in [1, 2] {
            Stream { kind, messages: MESSAGES, long_ones: 0 }.send(scope, &all[kind as usize], id);
        }
        let receivers = [&all[0], &all[3]].map(|client| {
            scope.spawn(move || {
                let mut got = Vec::new();
                for _ in 0..MESSAGES {
                    let (kind, text) = client.receive(id, 0).unwrap();
                    got.push((kind, u64::from_le_bytes(text.try_into().unwrap())));
                }
                for kind in [1, 2] {
                    assert!(got.iter().filter(|m| m.0 == kind).is_sorted(), "in order");
                }
                got
            })
        });
        receivers.into_iter().flat_map(|receiver| receiver.join().unwrap()).collect()
    });
    got.sort_unstable();
    assert!(
        got.into_iter()
            .eq([1, 2].into_iter().flat_map(|kind| (1..=MESSAGES).map(move |n| (kind, n))))
    );
    sound(&pool);
    all[0].queue_remove(id, &ROOT).unwrap();
    empty(&pool, &all[0]);
}

/// Requests of several clients and their answers, told apart by type, in one queue.
#[test]
fn requests_and_answers_of_several_clients_find_each_other() {
    const EACH: u64 = 4_000;
    let pool = pool();
    let all = clients(&pool, 5);
    let id = all[0].queue();
    std::thread::scope(|scope| {
        for (n, client) in all[1..].iter().enumerate() {
            scope.spawn(move || {
                let own = 100 + n as i64;
                for round in 1..=EACH {
                    client.send(id, 1, &((own as u64) << 32 | round).to_le_bytes()).unwrap();
                    let got = client.receive(id, own).unwrap();
                    let is_it = got == (own, round.to_le_bytes().to_vec());
                    or_end(client, id, is_it, || {
                        format!("{got:x?} answers request {round} of {own}")
                    });
                }
            });
        }
        for _ in 0..4 * EACH {
            let request = u64::from_le_bytes(all[0].receive(id, 1).unwrap().1.try_into().unwrap());
            let round = request & u64::from(u32::MAX);
            all[0].send(id, (request >> 32) as i64, &round.to_le_bytes()).unwrap();
        }
    });
    sound(&pool);
    all[0].queue_remove(id, &ROOT).unwrap();
    empty(&pool, &all[0]);
}

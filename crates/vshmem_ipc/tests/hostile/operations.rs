//! Everything that a member can do, once. The results do not matter here.

use std::sync::Arc;
use std::time::SystemTime;

use vshmem_ipc::{
    Claimed, Client, Kind, Lease, LockClass, LockMode, LockOwner, LockRange, LockRequest, Pool,
    Receive, Wait,
};
use vshmem_mem::{Clock, Deadline, signals_handled};

use super::fixture::*;
use super::setup::{BOTH, KEY, MAKE, NAME, QUEUE, SHORT, Setup, address, newcomer};

/// Who works on what.
pub struct Stage<'a> {
    pub setup: &'a Setup,
    pub pool: &'a Arc<Pool>,
    /// A member of the domain of most waiters, and one of another domain.
    pub me: &'a Client,
    pub far: &'a Client,
    /// Varies what is done from call to call.
    pub nth: u64,
}

impl Stage<'_> {
    fn kind(&self) -> Kind {
        Kind::ALL[self.nth as usize % 3]
    }

    fn object(&self) -> i32 {
        self.setup.objects[self.nth as usize % 2]
    }

    fn set(&self) -> i32 {
        self.setup.sets[self.nth as usize % 2]
    }

    fn queue(&self) -> i32 {
        self.setup.queues[self.nth as usize % 4]
    }
}

/// An operation and its name.
pub type Operation = (&'static str, fn(&Stage<'_>));

fn receive(stage: &Stage<'_>, kind: i64, except: bool, copy: bool) {
    let wanted = Receive { mtype: kind, room: 80, no_wait: true, cut: !copy, except, copy };
    let _ = stage.me.msgrcv_at_once(stage.queue(), wanted, &ROOT, |_| true, |_, _| ());
    let _ = stage.me.receive_as(stage.queue(), wanted);
}

/// All of them; harmless ones first, those after which less is left last.
pub const ALL: &[Operation] = &[
    ("census", |s| {
        let _ = (s.pool.domains(), s.pool.clients(), s.pool.waiters(), s.pool.usage());
        let _ = (s.pool.locks(), s.pool.space(), s.pool.local_clients(s.me.domain()));
        let _ = Kind::ALL.map(|kind| (s.pool.entries(kind), s.pool.objects(kind)));
        let _ = s.pool.attached_to(s.nth as u32 % 6);
    }),
    ("check", |s| {
        let _ = s.pool.check();
    }),
    ("totals", |s| {
        let _ = (s.me.shm_info(), s.me.sem_info(), s.me.msg_info());
    }),
    ("stat", |s| {
        let _ = s.me.segment_stat(s.setup.segments[0], &ROOT);
        let _ = (s.me.set_stat(s.set(), &User(5)), s.far.queue_stat(s.queue(), &ROOT));
        for index in 0..6 {
            let _ = s.me.segment_at_index(index, true, &ROOT);
            let _ = s.me.set_at_index(index, false, &ROOT);
            let _ = s.me.queue_at_index(index, true, &ROOT);
        }
    }),
    ("shmget", |s| {
        let _ = s.me.segment(KEY, 1, CREATE);
        let _ = s.me.segment(s.nth as i32 % 4, 4096 * (1 + s.nth % 5), CREATE);
    }),
    ("shmat", |s| {
        for id in s.setup.segments {
            let _ = s.me.shmat(id, true, false, &ROOT).map(|at| {
                let end = s.pool.layout().data.end();
                assert!(at.offset + at.bytes <= end, "a segment outside the pool");
            });
            let _ = s.me.attach_again(id);
        }
    }),
    ("shmctl", |s| {
        let id = s.setup.segments[s.nth as usize % 2];
        let _ = s.me.segment_change(id, 1, 2, 0o666, &ROOT);
        let _ = s.me.segment_lock(id, s.nth & 1 == 0, Some(1 << 16), &ROOT);
    }),
    ("shm_open", |s| {
        let backing = &Zeroing(s.pool);
        let name = [b'n', s.nth as u8 % 5];
        for (name, how) in [(NAME, BOTH), (&name[..], MAKE)] {
            if let Ok(id) = s.me.posix_shm_open(name, how, &ROOT, backing) {
                let _ = s.me.posix_shm_keep(id);
                let _ = s.me.posix_shm_close(id);
            }
        }
        let _ = s.me.posix_shm_keep_only(&[(s.object(), 1 + s.nth as u32 % 3)]);
    }),
    ("file locks", |s| {
        let asked = |nth: u64| LockRequest {
            id: s.object(),
            inode: nth % 3,
            file: 3,
            class: LockClass::Record,
            mode: if nth & 1 == 0 { LockMode::Shared } else { LockMode::Exclusive },
            range: LockRange { start: nth % 7, last: 7 + nth % 90 },
            blocks: false,
        };
        for (client, nth) in [(s.me, s.nth), (s.far, s.nth + 1)] {
            let request = asked(nth);
            let _ = client.lock_is_sole(&request, &mut (nth as u32));
            let claimed = client.lock_ask(&request);
            for recall in s.me.lock_recalls().unwrap_or_default() {
                let _ = s.me.lock_give_up(&recall);
                let _ = s.me.lock_refuse(&recall, LockMode::Shared, request.range);
                if nth.is_multiple_of(5) {
                    let _ = s.me.lock_forget_place(&recall);
                }
            }
            let _ = client.lock_uncovered(&request).map(Iterator::count);
            if let Ok(Claimed::Kept(want) | Claimed::Asked(want)) = claimed {
                let _ = client.lock_settle(&request, want);
                let _ = client.lock_give_back(want);
            }
            let _ = (client.lock_given_up(), client.lock_ring(), client.lock_probes());
        }
        let _ = (s.me.lock_probe(true), s.me.lock_probe(false), s.me.lock_bell());
    }),
    ("ftruncate", |s| {
        let backing = &Zeroing(s.pool);
        for bytes in [4096 * (s.nth % 4), 50, 4196] {
            let _ = s.far.posix_shm_set_size(s.object(), bytes, backing);
        }
    }),
    ("mmap of a descriptor", |s| {
        for id in s.setup.objects {
            let _ = s.me.posix_shm_attach(id).map(|at| {
                let end = s.pool.layout().data.end();
                assert!(at.offset + at.bytes <= end, "an object outside the pool");
            });
            let _ = s.me.shmdt(id);
        }
    }),
    ("fstat", |s| {
        for id in s.setup.objects {
            let _ = (s.me.posix_shm_stat(id), s.far.posix_shm_name(id));
            let _ = s.me.posix_shm_set_mode(id, s.nth as u32, &ROOT);
            let _ = s.me.posix_shm_set_owner(id, Some(3), None, &ROOT);
        }
    }),
    ("semget", |s| {
        let _ = s.me.semget(KEY, 1, CREATE | 0o600, &ROOT);
        let _ = s.me.semget(s.nth as i32 % 5, 1 + s.nth as i32 * 37 % 600, CREATE | 0o600, &ROOT);
    }),
    ("semop", |s| {
        let _ = s.me.op(s.set(), &[up(0)]);
        let _ = s.me.op(s.set(), &[now(down(0))]);
        let _ = s.far.op(s.set(), &[now(zero(1)), up(2), up(1)]);
    }),
    ("semop with undo", |s| {
        let _ = s.me.op(s.set(), &[undone(up(2))]);
        let _ = s.far.op(s.set(), &[undone(up(0)), undone(now(down(1)))]);
    }),
    ("semop that sleeps", |s| {
        let short = Some(SHORT);
        let _ = s.me.semop(s.set(), &[by(0, -30000)], short, &ROOT);
        let _ = s.me.semop(s.set(), &[undone(by(2, -30000)), up(0)], short, &ROOT);
    }),
    ("semop of many", |s| {
        let many: Vec<_> = (0..30).map(|n| up(n % 3)).collect();
        let _ = s.me.op(s.set(), &many);
        let asleep: Vec<_> = (0..20).map(|n| by(n % 3, -20000)).collect();
        let _ = s.me.semop(s.set(), &asleep, Some(SHORT), &ROOT);
    }),
    ("semctl that reads", |s| {
        for number in 0..3 {
            let _ = s.me.semaphore_value(s.set(), number, &ROOT);
            let _ = s.me.semaphore_pid(s.set(), number, &ROOT);
            let _ = s.me.semaphore_waiters(s.set(), number, number == 1, &ROOT);
        }
        let mut seen = 0;
        let _ = s.me.semaphore_values(s.set(), &ROOT, |_, _| seen += 1);
        assert!(seen <= 4 * s.pool.geometry().semmsl, "values of a set that cannot be");
    }),
    ("semctl that writes", |s| {
        let _ = s.me.set_semaphore(s.set(), 1, s.nth as i32 % 9, &ROOT);
        let _ = s.me.set_semaphores(s.set(), &|n| n as u16 % 3, &ROOT);
        let _ = s.me.set_change(s.set(), 0, 0, 0o777, &ROOT);
    }),
    ("msgget", |s| {
        let _ = s.me.msgget(KEY, CREATE | 0o600, &ROOT);
        let _ = s.me.msgget(s.nth as i32 % 5, CREATE | 0o600, &ROOT);
    }),
    ("msgsnd", |s| {
        let _ = s.me.send_now(s.queue(), 1 + s.nth as i64 % 9, &[7; 50]);
        let _ = s.far.send_now(s.queue(), 2, &[8; 250]);
        let _ = s.far.send_now(s.queue(), 2, &[8; 600]);
        let _ = s.me.msgsnd_at_once(s.queue(), 1 + s.nth as i64 % 9, &[7; 8], &ROOT);
        let _ = s.far.msgsnd_at_once(s.queue(), 3, &[7; 90], &ROOT);
    }),
    ("msgrcv any", |s| receive(s, 0, false, false)),
    ("msgrcv equal", |s| receive(s, 3, false, false)),
    ("msgrcv except", |s| receive(s, 1, true, false)),
    ("msgrcv at most", |s| receive(s, -4, false, false)),
    ("msgrcv copy", |s| receive(s, s.nth as i64 % 5, false, true)),
    ("msgctl", |s| {
        let _ = s.me.queue_change(s.queue(), 0, 0, 0o600, 64 << (s.nth % 8), &ROOT);
    }),
    ("mq_open", |s| {
        for name in [NAME, &[b'q', s.nth as u8 % 5][..]] {
            if let Ok(id) = s.me.mq_open(name, &QUEUE, &ROOT) {
                let _ = (s.me.mq_keep(id), s.me.mq_close(id));
            }
        }
    }),
    ("mq_send", |s| {
        for id in s.setup.posix_queues {
            let _ = s.me.mq_send(id, &[5; 90], s.nth as u32 % 9, Wait::Never);
            let _ = s.far.mq_send(id, &[6; 4], 0, Wait::Never);
            let _ = s.me.mq_send_at_once(id, &[7; 60], s.nth as u32 % 3);
            let _ = s.far.mq_send_at_once(id, &[8; 8], 0);
        }
    }),
    ("mq_receive", |s| {
        for id in s.setup.posix_queues {
            let _ = s.me.mq_receive_at_once(id, 8192, |_| true, |_, _| ());
            let _ = s.far.mq_receive(id, 8192, Wait::Never, &mut |priority, size, copy| {
                assert!((0..32768).contains(&priority), "a priority that cannot be");
                copy(&mut vec![0; size]);
                Ok(size)
            });
        }
    }),
    ("mq_getattr", |s| {
        for id in s.setup.posix_queues {
            let _ = (s.me.mq_stat(id), s.far.mq_unregister(id));
            let _ = s.me.mq_set_owner(id, (Some(3), None), Some(0o640), &ROOT);
        }
    }),
    ("futex", |s| {
        let here = address(s.pool, s.nth % 6);
        let soon = Some(Deadline {
            clock: Clock::Realtime,
            at: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
                + SHORT,
        });
        let mut looks = 0;
        let mut once = || {
            looks += 1;
            looks == 1
        };
        let _ = s.me.futex_wait(here, &mut once, None, signals_handled());
        let _ = s.far.futex_wait(here, &mut || true, soon, signals_handled());
        let _ = (s.me.futex_wake(here, 1), s.far.futex_wake(address(s.pool, 3), u32::MAX));
        if let Ok(owner) = LockOwner::new(s.far.client_id(), 1) {
            let _ = s.me.has_ended(owner);
        }
        let _ = s.pool.thread_activities();
    }),
    ("fork", |s| {
        if let Ok(kept) = s.me.reserve_child() {
            s.me.record_child_pid(kept, 1000 + s.nth as u32);
            s.me.cancel_child(kept);
        }
    }),
    ("exec", |s| {
        let _ = newcomer(s.pool, "a", 11);
    }),
    ("join and leave", |s| {
        if let Some(guest) = newcomer(s.pool, ["a", "b", "d"][s.nth as usize % 3], 40) {
            let _ = guest.shmat(s.setup.segments[0], false, false, &ROOT);
            let _ = guest.op(s.set(), &[undone(up(1))]);
            let _ = guest.leave();
        }
    }),
    ("agent", |s| {
        let _ = (
            s.me.renew_lease(9, &mut Lease::default()),
            s.me.is_active_member(),
            s.me.must_start_agent(|_| false),
        );
        let _ = s.me.free_joining_slots(s.me.domain(), &|_| true);
        s.me.wake_every_waiter();
        s.me.interrupt();
    }),
    ("detach", |s| {
        let _ = s.me.shmdt(s.setup.segments[0]);
        let _ = s.me.detach_all();
        let _ = s.me.apply_adjustments();
    }),
    ("reap", |s| {
        let rows = s.pool.clients().unwrap_or_default();
        if let Some(row) = rows.iter().find(|row| row.index == s.nth as u32 % 10) {
            let _ = s.me.reap(row.id);
        }
        let _ = s.far.reap_process(20, |_, _| true);
        if let Ok(rows) = s.pool.local_clients(s.nth as u32 % 4) {
            for row in rows.iter().filter(|row| row.index != s.me.client_slot()).take(2) {
                let _ = s.me.reap_local(row);
            }
        }
    }),
    ("shm_unlink", |s| {
        let _ = s.me.posix_shm_unlink(if s.nth & 1 == 0 { NAME } else { b"none" }, &ROOT);
        let _ = s.far.posix_shm_close(s.setup.objects[1]);
        let _ = s.me.posix_shm_rename(b"none", NAME, s.nth & 2 == 0, &ROOT);
        let _ = s.me.posix_shm_rename(NAME, b"none", true, &ROOT);
        if let Ok(id) = s.me.posix_shm_find(b"none") {
            let _ = s.me.posix_shm_access(id, 6, &ROOT);
        }
    }),
    ("mq_unlink", |s| {
        let _ = s.me.mq_unlink(if s.nth & 1 == 0 { NAME } else { b"none" }, &ROOT);
        let _ = (s.far.mq_close(s.setup.posix_queues[1]), s.me.mq_unregister(0));
    }),
    ("remove", |s| {
        let _ = match s.kind() {
            Kind::Segment => s.me.segment_remove(s.setup.segments[0], &ROOT),
            Kind::Semaphore => s.me.set_remove(s.set(), &ROOT),
            Kind::Queue => s.me.queue_remove(s.queue(), &ROOT),
        };
    }),
    ("repair", |s| {
        let _ = s.me.repair();
    }),
    ("evict", |s| {
        let _ = s.me.evict_domain(s.nth as u32 % 4);
    }),
    ("reap a domain", |s| {
        let _ = s.me.reap_domain(1 + s.nth as u32 % 4);
    }),
    ("farewell", |s| {
        let _ = (s.far.release_at_exit(), s.me.release_at_exit());
    }),
];

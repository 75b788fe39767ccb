//! POSIX message queues.

use vshmem_ipc::{QueueOpen, QueueSize, Wait};
use vshmem_mem::Instant;

use super::*;

const OPEN: QueueOpen = QueueOpen {
    read: true,
    write: true,
    create: true,
    exclusive: false,
    mode: 0o600,
    size: Ok(QueueSize { most_messages: 10, most_bytes: 2000 }),
};

/// The queue that all use, and one that only the child makes.
const SHARED: &str = "shared";
const CHILDS: &str = "child's";

/// Priority of the survivor's messages.
const URGENT: u32 = 9;

fn name(of: &str) -> Vec<u8> {
    format!("{of}-{}", SHARE.load(Ordering::Relaxed)).into_bytes()
}

fn open(me: &Client, of: &str) -> i32 {
    id(me.mq_open(&name(of), &OPEN, &ROOT))
}

fn take(me: &Client, queue: i32) -> Result<(u32, Vec<u8>), Errno> {
    let mut got = (0, Vec::new());
    let at_once = me.mq_receive_at_once(
        queue,
        2000,
        |_| true,
        |priority, text| got = (priority, text.into()),
    );
    if at_once.is_some() {
        return Ok(got);
    }
    me.mq_receive(queue, 2000, Wait::Never, &mut |priority, size, copy| {
        let mut text = vec![0; size];
        copy(&mut text);
        got = (priority as u32, text);
        Ok(size)
    })?;
    Ok(got)
}

fn send(me: &Client, queue: i32, text: &[u8], priority: u32) {
    if !me.mq_send_at_once(queue, text, priority) {
        me.mq_send(queue, text, priority, Wait::Forever).expect("a message sent");
    }
}

pub(super) fn prepare_posix_queues(session: &Session) {
    prepare(session);
    open(session.client(), SHARED);
}

/// Messages of two priorities, through ring and list, in a queue that others use and in one that
/// comes and goes.
pub(super) fn posix_queues(session: Session) {
    let me = session.client();
    let shared = open(me, SHARED);
    for priority in [0, 0, 1, 0] {
        let n = if priority == 0 { 0 } else { 5 };
        send(me, shared, &number(n), priority);
        assert_eq!(take(me, shared).expect("a message"), (priority, number(n)));
    }
    for n in 0..3 {
        send(me, shared, &number(n), 0);
    }
    for n in 0..3 {
        send(me, shared, &number(n), 1);
    }
    assert_eq!(take(me, shared).expect("a message"), (1, number(0)));
    me.mq_keep(shared).expect("a descriptor");
    let own = open(me, CHILDS);
    while me.mq_send(own, b"full", 0, Wait::Never).is_ok() {}
    let soon = Wait::Until(Instant::now().after(Duration::from_millis(1)));
    assert_eq!(me.mq_send(own, b"late", 3, soon), Err(Errno::TIMEDOUT));
    while take(me, own).is_ok() {}
    let registered = AtomicI32::new(0);
    let register = || {
        me.mq_await_first_message(own, 0, &mut || {
            registered.fetch_add(1, Ordering::SeqCst);
        })
    };
    let are_registered = |count: i32| {
        until("registered", || {
            assert_eq!(me.is_active_member(), Ok(true), "evicted");
            registered.load(Ordering::SeqCst) == count
        });
    };
    std::thread::scope(|scope| {
        let told = scope.spawn(register);
        are_registered(1);
        me.mq_send(own, b"first", 2, Wait::Forever).expect("a message sent");
        told.join().expect("a thread").expect("a notice");
        let untold = scope.spawn(register);
        are_registered(2);
        me.mq_unregister(own).expect("the end of a registration");
        untold.join().expect("a thread").expect("no notice");
    });
    me.mq_unlink(&name(CHILDS), &ROOT).expect("an end of a name");
    me.mq_close(own).expect("the end of a queue");
    me.mq_close(shared).expect("a descriptor less");
}

/// The same queue is of use to others, and names are free again.
pub(super) fn survive_posix_queues(session: &Session) {
    survive(session);
    let me = session.client();
    let shared = open(me, SHARED);
    let other = open(me, "survivor's");
    for queue in [shared, other] {
        if me.mq_send(queue, b"survivor", URGENT, Wait::Never).is_ok() {
            assert_eq!(take(me, queue).expect("a message").0, URGENT);
        }
        me.mq_close(queue).expect("a descriptor less");
    }
    me.mq_unlink(&name("survivor's"), &ROOT).expect("the end of a name");
}

/// What is there is whole and in order, and what the child had open is given back.
pub(super) fn verify_posix_queues(session: &Session, order: &Order) -> Result<(), String> {
    let me = session.client();
    let shared = open(me, SHARED);
    let opened = me.mq_stat(shared).expect("a queue").opened;
    if opened != 2 && order.fate != Fate::Evicted {
        return Err(format!("{opened} descriptors are counted, and there are 2"));
    }
    let mut before: Option<(u32, u32)> = None;
    while let Ok((priority, text)) = take(me, shared) {
        let n = u32::from_ne_bytes(text[..4].try_into().expect("a number"));
        if text != number(n) {
            return Err(format!("message {n} is torn"));
        }
        let follows =
            before.is_none_or(|(of, last)| priority < of || priority == of && n == last + 1);
        if !follows {
            return Err(format!("message {n}/{priority} comes after {before:?}"));
        }
        before = Some((priority, n));
    }
    for _ in 0..2 {
        me.mq_close(shared).expect("a descriptor less");
    }
    me.mq_unlink(&name(SHARED), &ROOT).expect("the end of a name");
    let _ = me.mq_unlink(&name(CHILDS), &ROOT);
    verify_all(session, ALL_TOKENS)
}

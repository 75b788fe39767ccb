//! One epoch: workers come and are killed for a while, then all of them; then everything must
//! balance, and the pool must be as it was before the first.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use vshmem_acceptance::{build, run as run_command};
use vshmem_ipc::{Client, ClientRow, Errno, Pool, PoolSpace, Superuser};
use vshmem_session::{Session, is_gone, open_pool};

use crate::journal::{Accounts, Journal, Seen};
use crate::message;
pub use crate::objects::Objects;
use crate::objects::{FAST, MAGIC, MOVED, MOVED_SEMAPHORES, TOKENS, receive, values};
use crate::random::Random;
use crate::worker_pool::{
    CREW_FIRST, CREW_WORKERS, FAR_STORM_FIRST, STORM_FIRST, STORM_WORKERS, Storm, Tally, WorkerPool,
};

/// The pool and what stays in it.
#[derive(Debug)]
pub struct Ground {
    pub name: String,
    pub place: PathBuf,
    pub journals: PathBuf,
    pub on: Objects,
    /// Whether there is a second domain.
    pub has_far: bool,
    /// What is in use when only the objects are there.
    pub bare: PoolSpace,
}

/// A type that tells the receiver to end.
const END: i64 = 1 << 60;
/// How long the dead may take to be reaped and the rest to settle.
const TIMEOUT: Duration = Duration::from_secs(60);

fn said<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> String + '_ {
    move |error| format!("{what}: {error}")
}

pub fn join(place: &Path) -> Result<Session, String> {
    let link = vshmem_link::open(place).map_err(|error| error.to_string())?;
    Session::join(link).map_err(|error| error.to_string())
}

/// The pool, without being a client of it.
pub fn look_at(place: &Path) -> Result<Pool, String> {
    let link = vshmem_link::open(place).map_err(|error| error.to_string())?;
    open_pool(link.as_ref()).map_err(|error| error.to_string())
}

/// What is in use.
pub fn room(pool: &Pool) -> Result<PoolSpace, String> {
    let room = pool.space().map_err(said("a count"))?;
    // A slab that has emptied keeps its size until another size wants it, pages that were used are
    // no longer clean, and long rings stay.
    Ok(PoolSpace { slabs_used: 0, slabs_free: 0, long_rings: 0, pages_clean: 0, ..room })
}

/// Receives everything of the strict queue until asked to end: (sender, number) in order.
fn collect(me: &Client, queue: i32) -> Result<Vec<(u32, u32)>, String> {
    let mut all = Vec::new();
    loop {
        let (kind, text) = receive(me, queue, 0, false).map_err(said("msgrcv"))?;
        if kind == END {
            return Ok(all);
        }
        let origin = message::read(kind, &text)?;
        all.push((origin.sender, origin.number));
    }
}

pub fn run(ground: &Ground, seconds: u64, seed: u64) -> Result<Tally, String> {
    let mut random = Random::new(seed);
    let _ = std::fs::remove_dir_all(&ground.journals);
    std::fs::create_dir_all(&ground.journals).map_err(said("the journals"))?;
    let session = join(&ground.place)?;
    let me = session.client();
    let inside_before = shared_words(ground, me)?.1;
    let (tally, strict) = std::thread::scope(|scope| {
        let collector = scope.spawn(|| collect(me, ground.on.strict));
        let tally = load(ground, &session, seconds, &mut random);
        // Whatever came of it, the collector must end.
        let told =
            me.msgsnd(ground.on.strict, END, b"", false, &Superuser).map_err(said("the end"));
        let strict = collector.join().map_err(|_| "the collector panicked".to_owned())?;
        told.and(Ok((tally?, strict?)))
    })?;
    let mut tally = tally;
    quiet(ground, &session)?;
    let mut accounts = Accounts::default();
    for (first, workers) in
        [(STORM_FIRST, STORM_WORKERS), (FAR_STORM_FIRST, STORM_WORKERS), (CREW_FIRST, CREW_WORKERS)]
    {
        let journal = Journal::open(&ground.journals, first).map_err(said("a journal"))?;
        accounts.add(&journal, workers).map_err(said("a journal"))?;
    }
    tally.operations = accounts.operations;
    tally.messages = strict.len() as u64 + accounts.received.len() as u64;
    semaphores(ground, me, &accounts)?;
    critical_sections(ground, me, &accounts, inside_before)?;
    strict_queue(&strict, &accounts)?;
    mixed_queue(ground, me, &accounts)?;
    ground.on.remove_others(me)?;
    // What a worker had claimed and not yet listed when it was killed waits for a process that
    // needs it.
    me.reclaim_all().map_err(said("reclaiming"))?;
    let wrong = me.pool().check().map_err(said("a look"))?;
    if !wrong.is_empty() {
        return Err(format!("check: {wrong:#?}"));
    }
    session.leave().map_err(said("leaving"))?;
    nothing_left(ground)?;
    Ok(tally)
}

/// The pool is as it was at first, as soon as an agent has gone that came late: one that a worker
/// had sent for before it was killed.
fn nothing_left(ground: &Ground) -> Result<(), String> {
    let pool = look_at(&ground.place)?;
    let begun = Instant::now();
    loop {
        let left = room(&pool)?;
        if left == ground.bare {
            return Ok(());
        }
        let late = pool.clients().map_err(said("the clients"))?;
        if begun.elapsed() > TIMEOUT {
            return Err(format!("leaked: {left:?}, at first {:?}; clients: {late:?}", ground.bare));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Kills at random for that long, and then all.
fn load(
    ground: &Ground,
    session: &Session,
    seconds: u64,
    random: &mut Random,
) -> Result<Tally, String> {
    let me = session.client();
    let mut start = |first| {
        Storm::start(first, &ground.name, &ground.journals, &ground.on, random.roll(1 << 30))
    };
    let mut storm = start(STORM_FIRST)?;
    let mut far_storm = if ground.has_far { Some(start(FAR_STORM_FIRST)?) } else { None };
    let mut worker_pool = WorkerPool::start(&ground.place, &ground.journals, &ground.on, random)?;
    let mut tally = Tally::default();
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        std::thread::sleep(Duration::from_micros(random.roll(30_000)));
        storm.look()?;
        far_storm.as_mut().map_or(Ok(()), Storm::look)?;
        worker_pool.strike(session, random)?;
        let sum: u32 = values(me, ground.on.moved).map_err(said("GETALL"))?.iter().sum();
        if sum != MOVED * u32::from(MOVED_SEMAPHORES) {
            return Err(format!("tokens that are only moved add up to {sum}"));
        }
        if random.roll(64) == 0 && end_agent(me)? {
            tally.agents += 1;
        }
    }
    if let Some(far_storm) = far_storm {
        let dies_whole = random.even();
        tally.add(if dies_whole {
            far_storm.kill_domain(&ground.journals)?
        } else {
            far_storm.end()?
        });
    }
    tally.add(worker_pool.end(session)?);
    tally.add(storm.end()?);
    Ok(tally)
}

/// Kills this domain's agent, if there is one.
fn end_agent(me: &Client) -> Result<bool, String> {
    let rows = me.pool().domains().map_err(said("the domains"))?;
    let Some(row) = rows.into_iter().find(|row| row.index == me.domain()) else {
        return Ok(false);
    };
    let known = me.pool().clients().map_err(said("the clients"))?;
    // A pid in the domain table may be that of a client that was about to start an agent.
    let agent = known.iter().find(|client| client.pid == row.agent && client.domain == row.index);
    let Some(agent) = agent.filter(|agent| agent.pid != std::process::id()) else {
        return Ok(false);
    };
    vshmem_acceptance::actor::kill(agent.pid as i32);
    Ok(true)
}

/// Waits until no other process is a client, as an agent reaps dead clients and, once a second,
/// domains that have ended.
fn quiet(ground: &Ground, session: &Session) -> Result<(), String> {
    let me = session.client();
    let begun = Instant::now();
    let mut looked = 0;
    loop {
        let rows = me.pool().clients().map_err(said("the clients"))?;
        let others: Vec<&ClientRow> =
            rows.iter().filter(|row| row.index != me.client_slot()).collect();
        if others.is_empty() {
            return me
                .free_joining_slots(me.domain(), &|pid| is_gone(pid, 0))
                .map_err(said("reaping"));
        }
        let (here, far): (Vec<&ClientRow>, Vec<&ClientRow>) =
            others.iter().copied().partition(|row| row.domain == me.domain());
        if far.is_empty() {
            end_agent(me)?;
        } else if begun.elapsed() > looked * Duration::from_secs(1) {
            // The one that was there may have been killed.
            looked += 1;
            let place = ground.place.display().to_string();
            run_command(Command::new(build::vshmem()).args(["agent", "--pool", &place]));
        }
        for row in &here {
            if is_gone(row.pid, row.start) {
                me.reap_process(row.pid, vshmem_session::is_gone).map_err(said("reaping"))?;
            }
        }
        if begun.elapsed() > TIMEOUT {
            return Err(format!("clients that do not go: {others:?}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn semaphores(ground: &Ground, me: &Client, accounts: &Accounts) -> Result<(), String> {
    let on = &ground.on;
    let read = |set| values(me, set).map_err(said("GETALL"));
    let tokens = read(on.tokens)?;
    if tokens.iter().any(|value| *value != TOKENS) {
        return Err(format!("tokens held with SEM_UNDO: {tokens:?}, not {TOKENS} each"));
    }
    let moved = read(on.moved)?;
    if moved.iter().sum::<u32>() != MOVED * u32::from(MOVED_SEMAPHORES) {
        return Err(format!("tokens that are only moved: {moved:?}"));
    }
    if read(on.mutex)? != [1] {
        return Err(format!("the mutex: {:?}", read(on.mutex)?));
    }
    // In the journal's sums each doubtful call counts as done.
    let fast = i64::from(read(on.fast)?[0]);
    let sure = i64::from(FAST) - accounts.lowered as i64 + accounts.raised as i64;
    let (least, most) = (sure - accounts.died_raising as i64, sure + accounts.died_lowering as i64);
    if !(least..=most).contains(&fast) {
        return Err(format!("single operations: {fast}, not within {least}..={most}"));
    }
    // A process that died between down and up has kept its token: given back for the next epoch.
    me.set_semaphore(on.fast, 0, FAST as i32, &Superuser).map_err(said("SETVAL"))
}

fn pool_file(ground: &Ground) -> Result<File, String> {
    OpenOptions::new().read(true).write(true).open(&ground.place).map_err(said("the pool's file"))
}

/// Who is inside the critical section, and how many have been.
fn shared_words(ground: &Ground, me: &Client) -> Result<(u64, u64), String> {
    let place =
        me.shmat(ground.on.segment, true, false, &Superuser).map_err(said("the shared segment"))?;
    let file = pool_file(ground)?;
    let mut words = [0; 24];
    file.read_exact_at(&mut words, place.offset).map_err(said("the shared segment"))?;
    file.write_all_at(&MAGIC.to_ne_bytes(), place.offset).map_err(said("the shared segment"))?;
    me.shmdt(ground.on.segment).map_err(said("the shared segment"))?;
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| words[8 * at + byte]));
    Ok((word(1), word(2)))
}

fn critical_sections(
    ground: &Ground,
    me: &Client,
    accounts: &Accounts,
    before: u64,
) -> Result<(), String> {
    let count = shared_words(ground, me)?.1 - before;
    let (least, most) = (accounts.left - accounts.died_inside, accounts.left);
    if (least..=most).contains(&count) {
        Ok(())
    } else {
        Err(format!("critical sections: {count}, not within {least}..={most}"))
    }
}

/// Every message that was sent is there once, in the order of its sender; one in doubt at most
/// once.
fn strict_queue(strict: &[(u32, u32)], accounts: &Accounts) -> Result<(), String> {
    let mut last: HashMap<u32, u32> = HashMap::new();
    let mut seen = Seen::new();
    for &(sender, number) in strict {
        let before = last.insert(sender, number).unwrap_or(0);
        if number <= before {
            return Err(format!("sender {sender}: message {number} came after {before}"));
        }
        seen.insert((sender, number), 1);
    }
    let missing = missing(&seen, &accounts.sent[0], &accounts.doubtful[0])?;
    if missing.is_empty() { Ok(()) } else { Err(format!("messages lost: {missing:?}")) }
}

/// As the strict one, but the receiver may die with a message in its hands.
fn mixed_queue(ground: &Ground, me: &Client, accounts: &Accounts) -> Result<(), String> {
    let mut seen = accounts.received.clone();
    loop {
        match receive(me, ground.on.mixed, 0, true) {
            Ok((kind, text)) => {
                let origin = message::read(kind, &text)?;
                *seen.entry((origin.sender, origin.number)).or_default() += 1;
            }
            Err(Errno::NOMSG) => break,
            Err(errno) => return Err(said("msgrcv")(errno)),
        }
    }
    let missing = missing(&seen, &accounts.sent[1], &accounts.doubtful[1])?;
    if missing.len() <= accounts.died_receiving as usize {
        Ok(())
    } else {
        let died = accounts.died_receiving;
        Err(format!("messages lost: {missing:?}; only {died} died in msgrcv"))
    }
}

/// Messages that were sent and not seen. An error for one seen twice, or never sent.
fn missing(
    seen: &Seen,
    sent: &HashMap<u32, u32>,
    doubtful: &Seen,
) -> Result<Vec<(u32, u32)>, String> {
    for (&(sender, number), &times) in seen {
        if times > 1 {
            return Err(format!("sender {sender}: message {number} came {times} times"));
        }
        if number == 0 || sent.get(&sender).is_none_or(|last| number > *last) {
            return Err(format!("sender {sender}: message {number} was never sent"));
        }
    }
    let mut missing = Vec::new();
    for (&sender, &last) in sent {
        missing.extend(
            (1..=last)
                .map(|number| (sender, number))
                .filter(|one| !seen.contains_key(one) && !doubtful.contains_key(one)),
        );
    }
    Ok(missing)
}

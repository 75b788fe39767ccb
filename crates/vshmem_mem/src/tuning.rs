//! How long threads look, yield and sleep inside calls: the constants, each with its reason.
//! (What one file alone knows of, as the timeout of one call, is there.)
//!
//! The rules are where they are used. What C code waits for is in `transport/tuning.h`; a test
//! holds those that are in both together.
//!
//! *Ticks* are those of the CPU's counter ([`ticks`](crate::ticks)), of 1 to some GHz: 1,024 of
//! them are a microsecond at most. A *poll* is one look at a word and the processor's pause, some
//! 30 ns.

use std::time::Duration;

/// Ticks between two polls after which a thread was not running: at most 33 us, which is ten times
/// what any poll takes, and a hundredth of a scheduler's slice.
pub const GAP: u64 = 1 << 15;
/// Of a moving average, one part in so many is new. The last eight values then make two thirds of
/// it: one value that was disturbed does not decide, and a change shows within ten.
pub const INERTIA: u32 = 8;
/// What was in vain once is tried for a fourth of the time, and when that is in vain as well for a
/// sixteenth; both as shifts. A sixteenth is what a wait may lose without being noticed.
pub const FOURTH: u32 = 2;
/// See [`FOURTH`].
pub const SIXTEENTH: u32 = 4;
/// Waits that leave out what has just failed; each further failure doubles them. One failure then
/// costs at most a fifth more for each wait.
pub const FIRST_REST: u32 = 4;
/// Waits on end that go on with what has just succeeded without being expected to: both threads of
/// a pair come to it within so many.
pub const RUN: u32 = 8;
/// One wait in so many, at least, tries what has not paid so far: in a trial that fails a thread
/// spends up to some sleeps, which is less than a hundredth of a thousand waits.
pub const SELDOM: u32 = 1 << 10;

/// The shortest sleep. The kernel adds 50 us to any (its timer slack), so a shorter one would
/// hardly end sooner.
pub const SHORTEST_SLEEP: Duration = Duration::from_micros(50);
/// The first sleep of a process of MPI between two looks; with the kernel's slack 70 us, which is
/// less than a process's turn where many share a CPU. The next ones are longer.
pub const FIRST_SLEEP: Duration = Duration::from_micros(20);

/// How often a thread tries again that needs what others are about to finish or give back. An
/// attempt takes some microseconds, so they take a few hundredths of a CPU.
pub const RETRY_INTERVAL: Duration = Duration::from_micros(200);
/// Times that it does before its call fails: a tenth of a second, some scheduler's slices of every
/// other thread.
pub const RETRIES: u32 = 500;
/// How often a thread looks for a thread slot when all are taken, and how often it does before its
/// call fails: fifty milliseconds. An attempt looks through the whole table.
pub const SLOT_INTERVAL: Duration = Duration::from_micros(500);
/// See [`SLOT_INTERVAL`].
pub const SLOT_TRIES: u32 = 100;
/// How long a thread lets a peer keep it from going on. A process that is paged out or shares its
/// CPU with hundreds goes on within that; a program that hangs for longer is taken for dead by its
/// users.
pub const PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// What a sleep costs (`vshmem_sync`, `wait/sleep_cost.rs`). In ticks of CPU time.
pub mod sleep_cost {
    /// Before any has been measured: what is usual in a virtual machine is 25 us.
    pub const FIRST_GUESS: u32 = 1 << 16;
    /// At least: the fastest switch from one thread to another takes longer.
    pub const LEAST_COST: u32 = 1 << 11;
    /// At most: half a millisecond on a slow counter. 200 us is the most that was measured.
    pub const MOST_COST: u32 = 1 << 19;
    /// The longest trial: a wake-up that takes longer is not worth a CPU.
    pub const LONGEST_TRIAL: u32 = 2 * MOST_COST;
    /// Sleeps that are measured at first: the average begins with more than one.
    pub const SAMPLED_FIRST: u32 = 4;
    /// Then one in so many: reading both clocks twice takes up to a fifth of a sleep, so this is
    /// less than a hundredth.
    pub const SAMPLED_EVERY: u32 = 64;
}

/// Spinning before a sleep (`vshmem_sync`, `wait/spin.rs`).
pub mod spin {
    /// Ticks: the shortest spin of a thread whose last one failed. A peer that spins itself answers
    /// within it: a round trip is 300 to 1,700 ticks (`poll_interval.rs`).
    pub const PROMPT: u32 = 1 << 13;
    /// One wait in so many is a trial, at first and at least.
    pub const TRIAL_EVERY: u32 = 32;
    /// When trials are so many waits apart, several on end have failed, as each that fails doubles
    /// it: no peer answers quickly.
    pub const TRIALS_FAIL: u32 = TRIAL_EVERY << 3;
    /// Trials cost this part of a sleep for each wait at most. It is what they add to the bounds
    /// that design.md proves.
    pub const TRIALS_PART: u32 = 8;
    /// Waits without spinning at most, after gaps on end. The next spin in vain costs as much as
    /// one sleep: one in 64 is little.
    pub const LONGEST_REST: u32 = 64;
    /// Polls from one reading of the counter to the next. It takes as long as a poll.
    pub const POLLS_PER_CLOCK_READ: u32 = 4;
    /// Pauses of the processor between two polls at most, for a counter that stands still: more
    /// than fit in an interval on any processor whose pause takes more than 6 ticks.
    pub const MOST_PAUSES: u32 = 32;
    /// Ticks between two polls: measured, see `poll_interval.rs`.
    pub const POLL_INTERVAL: u64 = 192;
    /// The same for a word on AMD's processors.
    pub const POLL_INTERVAL_OF_WORD_ON_AMD: u64 = 128;
}

/// Yielding before a sleep (`vshmem_sync`, `wait/yielding.rs`).
pub mod yielding {
    /// Ticks after which a yield has taken too long: some hundred processes' turns, and less than
    /// the slice of one that computes. On a counter of 1 GHz this is 0.26 ms.
    pub const LONG: u64 = 1 << 18;
    /// Waits without a yield at most. A yield in vain may last for a slice of a program that
    /// computes, some milliseconds: of so many waits of 10 us each that is a fiftieth.
    pub const LONGEST_REST: u32 = 1 << 14;
    /// So many yields on end that were answered make the next rest a short one again: they have
    /// saved more than the slice that one yield in vain may cost.
    pub const PROVEN: u32 = 64;
}

/// Looking for room in a queue's ring (`vshmem_sync`, `message_ring/send_backoff.rs`). In ticks.
pub mod send {
    use super::{GAP, SIXTEENTH};

    /// What a call under the lock is taken to cost before any has been measured.
    pub const FIRST_GUESS: u32 = 1 << 10;
    /// It never counts as more: so much longer only one that was kept from the CPU takes.
    pub const MOST_COST: u32 = 4 * FIRST_GUESS;
    /// The most that is kept to be spent: at most 65 us, as long as an interrupt keeps a receiver.
    pub const MOST_CREDIT: u32 = 2 * GAP as u32;
    /// One call under the lock in so many is measured, or asks again: then what a question costs (a
    /// tenth of the call) is less than a hundredth.
    pub const SOME_CALLS: u32 = 1 << SIXTEENTH;
    /// Pauses of the processor between two looks, about as long as a cache line takes.
    pub const PAUSES: u32 = 3;
    /// How long a thread leaves the ring to the one that was faster: some 200 ns, in which that one
    /// makes its next call; after more losses on end twice that, and then four times.
    pub const LEAVE_LINES: u64 = 1 << 9;
    /// Times that it doubles: longer than a call takes it need not be.
    pub const LEAVE_LINES_DOUBLED: u32 = 2;
}

/// Waiting for a lock (`vshmem_sync`, `lock/acquire.rs`), and for other changes that a thread does
/// not leave half done while it runs.
pub mod lock {
    use std::time::Duration;

    /// Polls before a waiting thread gives the CPU away: some 3 us, as long as a change takes while
    /// its holder runs. Measured: decision 43.
    pub const POLLS: u32 = 100;
    /// Then it gives the CPU away so often, and then sleeps. Measured: decision 43.
    pub const YIELDS: u32 = 32;
    /// It takes over when the word has not changed for so long: a thousand times what any change
    /// takes while its holder runs.
    pub const TAKEOVER: Duration = Duration::from_millis(2);
    /// When the lock's tag is a multiple of this, a thread that also held the lock last leaves it
    /// to others. Then that costs less than a hundredth of the changes between.
    pub const STREAK: u64 = 128;
    /// Polls for which it does: half a microsecond, in which a line reaches any other CPU.
    pub const ASIDE: u32 = 16;
    /// Turns of a waiting thread between two looks at the clock for
    /// [`PEER_TIMEOUT`](super::PEER_TIMEOUT): 0.1 s while it sleeps in each, so the clock costs
    /// nothing.
    pub const TURNS_PER_CLOCK_READ: u32 = 1024;
    /// So many turns count as this long at most: twice what they take. In a longer time the process
    /// was stopped.
    pub const TURNS_TAKE: Duration = Duration::from_millis(250);
}

/// Looking again while asleep (`vshmem_ipc`, `wait/sleep.rs`, `futex/wait.rs`; the first is
/// after [`SHORTEST_SLEEP`]).
pub mod recheck {
    use std::time::Duration;

    /// The longest time between two looks where some domain cannot notify this one: 250 idle
    /// wake-ups a second are less than a hundredth of a CPU.
    pub const LONGEST: Duration = Duration::from_millis(4);
    /// When every domain can notify this one, but there is no agent: this covers wakers that died
    /// between the change and the notification, and lost notifications.
    pub const NOTIFIABLE: Duration = Duration::from_secs(1);
    /// With an agent, whose end wakes one waiter. This covers that one dying before it wakes the
    /// others.
    pub const GUARDED: Duration = Duration::from_secs(60);
    /// In one of so many looks a thread asks whether others have died, and looks after the agent:
    /// about once a second at [`LONGEST`], as often as at [`NOTIFIABLE`].
    pub const LOOKS_PER_RECOVERY: u32 = 256;
    /// In one of so many it asks for a slot again, if it has none, which is a search of the whole
    /// table: at [`LONGEST`] some 16 times a second.
    pub const LOOKS_PER_SLOT_SEARCH: u32 = 16;
}

/// Waiting in a team (`vshmem_team`, `backoff.rs`).
pub mod team {
    use std::time::Duration;

    /// Looks before the CPU is given away, at least: 1 us, in which a member answers that looks
    /// itself.
    pub const LEAST_LOOKS: u32 = 32;
    /// At most: some 0.1 ms, as long as an interrupt or a page fault keeps a member.
    pub const MOST_LOOKS: u32 = 4096;
    /// For a caller with something to do, which looks by itself: a look takes up to 50 ns, so few
    /// where they are in vain, as where members share a CPU.
    pub const LEAST_LOOKS_OF_BUSY: u32 = 2;
    /// For such a caller at most: some 25 us. So often it is also called before the clock is read.
    pub const MOST_LOOKS_OF_BUSY: u32 = 512;
    /// How often the CPU is given away before a sleep: every other of up to 64 members of one CPU
    /// has had it then.
    pub const YIELDS: u32 = 64;
    /// The longest sleep: a thousand wake-ups a second are what a member costs that waits for long.
    pub const LONGEST_SLEEP: Duration = Duration::from_millis(1);
    /// Between looks at whether the other one lives: system calls, of some microseconds.
    pub const CHECK_EVERY: Duration = Duration::from_millis(20);
    /// What passes between them counts for this part of the timeout at most, or for
    /// [`LEAST_OF_A_CHECK`] where that is more: a job that is stopped as a whole continues with the
    /// others' timeout nearly as it was.
    pub const PART_OF_A_CHECK: u32 = 10;
    /// Two and a half times [`CHECK_EVERY`].
    pub const LEAST_OF_A_CHECK: Duration = Duration::from_millis(50);
}

//! What a thread does until a word of the pool changes: it spins, or yields, and then sleeps.
//!
//! The truth is always in the pool: a waiter's wait cell, or the word that it waits for. A *wait
//! word* lies where this kernel can sleep on it, and only tells the waiter to look again. So a
//! wake-up that is lost costs time, one too many costs a look, and neither does harm.
//!
//! # States of a wait
//! ```text
//!   begin --> spin ---seen--> done
//!     |         `--too long, or a gap--.
//!     |--> yield once ---seen--> done  |
//!     |         `----------------------|
//!     `--------------------------------+--> announce (SLEEPING) --> look again --seen--> done
//!                                                  ^                    |
//!                                                  `------ sleep <------'
//!                            (the sleep ends: woken, timed out, or a signal handler ran)
//! ```
//! How long a waiter spins is a matter of cost (`spin.rs`, `sleep_cost.rs`, `yielding.rs`); how
//! often it polls meanwhile, of the processor (`poll_interval.rs`). Whom a wake-up reaches that
//! sleeps on another user's words, or in another domain, is said by two traits that the layers
//! above fill in (`wake_other_users.rs`, `doorbell.rs`).
//!
//! # Widths
//! * A wait word: bit 0 SLEEPING; 31 bits that each wake-up adds to. They come back after 7 minutes
//!   of wake-ups at full rate: a waiter that stops for so long between its look and its sleep
//!   misses one, and looks again by itself (within 4 ms or 1 s).
//! * Costs are kept in ticks of the CPU's counter, 32 bits, and bounded far below.
//!
//! # Barriers
//! * SLEEP: sequentially consistent `fetch_or` of SLEEPING, and then a look at the cell (`park`).
//!   Pairs with WAKE: at least one of the two sees the other.
//! * WAKE: a sequentially consistent swap of the cell, and then `fetch_add` on the wait word
//!   (`wake_word`). Pairs with SLEEP: the same.
//!
//! # Model
//! `tests/loom/wait.rs`: a waiter and its waker, and the next waiter in the same slot. The rule for
//! spinning is arithmetic on private words: its unit tests count what it costs against the better
//! choice (`spin/tests.rs`).

mod doorbell;
mod park;
mod poll_interval;
mod sleep_cost;
mod spin;
mod wake_other_users;
mod yielding;

pub use doorbell::Doorbell;
pub use park::{ParkResult, WaitWords, park, wake, wake_word};
pub use poll_interval::Polled;
pub use sleep_cost::SleepMeter;
pub use spin::{Spin, SpinWait, WakerCpu};
pub use wake_other_users::{WakeOtherUsers, WordsOwner};
pub(crate) use yielding::yield_cpu;

//! What a thread does until a word of the pool changes.

mod doorbell;
mod park;
mod sleep_cost;
mod spin;
mod wake_other_users;
mod yielding;

pub use doorbell::Doorbell;
pub use park::{Parked, WaitWords, park, ring, ring_word};
pub use sleep_cost::SleepMeter;
pub use spin::{Answerer, Look, Spin};
pub use wake_other_users::{Neighbours, WordsOwner};
pub(crate) use yielding::yield_cpu;

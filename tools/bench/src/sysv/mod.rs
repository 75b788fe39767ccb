//! System V IPC calls, and those of POSIX, on the kernel and on a pool, interleaved.

mod catalogue;
mod comparison;
mod plan;
mod posix;
mod preparing;
mod programs;
mod results;
mod run;
mod target;
mod trips;

pub use catalogue::{KernelLimits, catalogue};
pub use comparison::{Case, Comparison, Contender, Figure, Length, Pins, Place, Question};
pub use plan::{
    CALLS_KERNEL, GUEST_PROGRAMS, POOL_BYTES, POOL_LIMITS, PREPARED_BYTES, PROGRAMS, Plan, RunCase,
    Sample, Subject,
};
pub use results::{Answer, Measured, Results};
pub use run::measure;
pub use target::{Target, Verdict};
pub use trips::between_guests;

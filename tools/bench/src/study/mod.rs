//! The papers' measurements as one: environments, benchmarks and repetitions interleaved, in a
//! directory that can be continued with and reported on at any time.
//!
//! | module | what it holds |
//! |---|---|
//! | `environment` | where programs run |
//! | `case` | one thing that is measured |
//! | `figure` | a number that a program prints |
//! | `catalogue` | all of them |
//! | `schedule` | what is run when |
//! | `journal` | every run, on the disk before the next |
//! | `facts` | the machine, and what else it did during a run |
//! | `expectation` | how long it takes |
//! | `runner` | turn by turn through the schedule |
//! | `environments` | real places: this kernel, guests of a lab |
//! | `known` | programs of other people |
//! | `placement` | where a plan has programs and guests run, and where their pages lie |
//! | `plan_comparison` | what a plan is made for: one kernel, one guest, guests side by side |
//! | `t_distribution`, `outliers`, `plausible`, `verdict`, `multiplicity` | what follows from figures |
//! | `report` | pages and tables of it |

mod case;
mod catalogue;
mod environment;
mod environments;
mod expectation;
mod facts;
mod figure;
mod journal;
mod known;
mod multiplicity;
mod outliers;
mod placement;
mod plan_comparison;
mod plausible;
pub mod report;
mod runner;
mod schedule;
mod t_distribution;
mod verdict;

pub use case::{Case, Group, Model, Recipe};
pub use catalogue::{Extent, catalogue};
pub use environment::Environment;
pub use environments::{GUESTS, Places, Setup, clear_leftovers, this_process};
pub use expectation::time_left;
pub use facts::Facts;
pub use figure::{Better, Figure, Per};
pub use journal::{Contents, JOURNAL, Journal, Sample, Session, Study};
pub(crate) use multiplicity::holm;
pub use placement::{Pages, Placement, Share};
pub use plan_comparison::PlanComparison;
pub use runner::{Ended, Outcome, RunCase, resume, resume_for};
pub use verdict::{Ratio, Verdict};

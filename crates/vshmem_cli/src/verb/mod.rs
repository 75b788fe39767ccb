//! The verbs that are not about pools themselves.

pub mod agent;
pub mod doctor;
pub mod fabric_env;
pub mod ls;
pub mod metrics;
pub mod move_guest;
pub mod mpi_env;
pub mod plan;
pub mod rm;
pub mod run;
pub mod tool;
pub mod top;

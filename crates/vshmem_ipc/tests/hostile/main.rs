//! Promise 5: a hostile member cannot break out. Structures are scribbled over while members do
//! everything that members do. Calls may fail; none may crash, hang, or leave the pool.

#[path = "../behaviour/fixture.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod fixture;

mod operations;
mod places;
mod script;
mod setup;
mod watchdog;

mod corpus;
mod records;
mod scribblers;
mod sizes;
mod words;

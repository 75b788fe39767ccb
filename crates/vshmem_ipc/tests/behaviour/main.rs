//! What a pool does, seen through members of one process: several clients, several domains.

mod fixture;

mod check;
mod death;
mod domains;
mod forks;
mod heap;
mod keys;
mod limits;
mod queues;
mod queues_asleep;
mod repair;
mod segments;
mod segments_model;
mod semaphores;
mod semaphores_asleep;
mod sets_large;
mod stress;
mod undo;

//! What a pool does, seen through members of one process: several clients, several domains.

mod fixture;

mod activity;
mod check;
mod clean;
mod datagrams;
mod death;
mod domains;
mod doorbells;
mod forks;
mod futexes;
mod heap;
mod identity;
mod keys;
mod limits;
mod locks;
mod nodes;
mod posix_queues;
mod posix_shm;
mod queues;
mod queues_asleep;
mod queues_model;
mod queues_ring;
mod queues_slots;
mod queues_streams;
mod queues_types;
mod repair;
mod segments;
mod segments_model;
mod semaphores;
mod semaphores_asleep;
mod sets_large;
mod stress;
mod undo;
mod users;
mod waker_cpu;

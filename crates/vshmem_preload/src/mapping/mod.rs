//! Calls of the program on its address space, which change what is attached.

pub mod advice;
pub mod protect;
pub mod remap;
pub mod unmap;
pub mod user;

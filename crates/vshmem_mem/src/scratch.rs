//! Private memory for rare large work, without the heap: the callers run inside other people's
//! programs, in signal handlers and after fork, where malloc is not to be had.

use crate::mapping::Mapping;

/// A fixed number of values in memory of their own.
#[derive(Debug)]
pub struct Scratch<T: Copy> {
    mapping: Mapping,
    length: usize,
    value: std::marker::PhantomData<T>,
}

impl<T: Copy + ZeroIsValid> Scratch<T> {
    /// Room for `length` values, all zero bytes.
    ///
    /// Returns `None` when there is no memory.
    #[must_use]
    pub fn new(length: usize) -> Option<Self> {
        let bytes = length.max(1).checked_mul(size_of::<T>())?;
        let mapping = Mapping::anonymous(bytes).ok()?;
        Some(Self { mapping, length, value: std::marker::PhantomData })
    }

    /// The values.
    #[must_use]
    pub fn values(&mut self) -> &mut [T] {
        // SAFETY: the mapping is private, page aligned, large enough for `length` values, and zero
        // bytes are a valid `T` by the bound on `new`.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.start().as_ptr().cast(), self.length) }
    }
}

/// Types for which all-zero bytes are a value.
///
/// # Safety
/// A place of this type that is all zero bytes, padding included, holds a value of it.
pub unsafe trait ZeroIsValid {}
// SAFETY: an integer: every pattern of bits is one.
unsafe impl ZeroIsValid for u8 {}
// SAFETY: an integer: every pattern of bits is one.
unsafe impl ZeroIsValid for u16 {}
// SAFETY: an integer: every pattern of bits is one.
unsafe impl ZeroIsValid for u32 {}
// SAFETY: an integer: every pattern of bits is one.
unsafe impl ZeroIsValid for u64 {}
// SAFETY: three integers.
unsafe impl ZeroIsValid for vshmem_wire::IntentEntry {}

//! What the body of a change decides.

/// What is to become of a change under a lock, and of the call that makes it.
///
/// A body that ends with a fault is as one that abandons the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Decision<T, E> {
    /// All staged writes happen, and the call succeeds.
    Commit(T),
    /// None of the staged writes happens: the lock is released, memory is as it was, and the call
    /// fails.
    Abandon(E),
    /// All staged writes happen, and the call fails all the same: they are work that is right
    /// whatever becomes of the call.
    CommitThenFail(E),
}

impl<T, E> Decision<T, E> {
    /// Whether the staged writes happen.
    #[must_use]
    #[inline]
    pub fn commits(&self) -> bool {
        !matches!(self, Self::Abandon(_))
    }

    /// The same decision, with another value for a call that succeeds.
    #[inline]
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Decision<U, E> {
        match self {
            Self::Commit(value) => Decision::Commit(make(value)),
            Self::Abandon(error) => Decision::Abandon(error),
            Self::CommitThenFail(error) => Decision::CommitThenFail(error),
        }
    }
}

impl<T, E> From<Result<T, E>> for Decision<T, E> {
    /// An error abandons the change.
    #[inline]
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Self::Commit(value),
            Err(error) => Self::Abandon(error),
        }
    }
}

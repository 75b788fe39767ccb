//! What of this crate is to begin anew in a child that fork has made.

use crate::{clock, confined};

/// To be called in such a child, by its only thread.
pub fn begin_child() {
    clock::begin_child();
    confined::begin_child();
}

//! What AddressSanitizer's runtime asks the program for.

use libc::c_char;

/// Its options, before those of ASAN_OPTIONS: it is to bear that this library is loaded before it.
///
/// A program that has a function of this name answers itself, and then has to say so in
/// ASAN_OPTIONS.
#[unsafe(no_mangle)]
pub extern "C" fn __asan_default_options() -> *const c_char {
    c"verify_asan_link_order=0".as_ptr()
}

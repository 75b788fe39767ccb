//! Symbols of loaded objects, read off their own tables: for dlsym itself, which this library
//! answers and so cannot ask, and for what this library exports.
//!
//! The tables are the dynamic linker's (elf(5)), and so is the list of objects (`_r_debug`, for
//! debuggers); it has applied them before any code runs that could ask here. No heap, no lock, and
//! no call: callers may be the program's own malloc, or the runtime of a sanitizer that answers
//! dl_iterate_phdr(3) and has not begun. What is looked for here is found in objects that the
//! program was started with, which are never unloaded, so the list is not followed to where it
//! changes.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, Ordering};

const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
const STT_FUNC: u8 = 2;
/// Of a version: other objects are not linked with it any more.
const HIDDEN: u16 = 0x8000;

/// `struct link_map` of <link.h>: a loaded object.
#[repr(C)]
struct Object {
    base: usize,
    name: *const c_char,
    /// Its dynamic section: tags and values, up to a tag of 0.
    dynamic: *const [u64; 2],
    next: *const Object,
}

/// The beginning of `struct r_debug` of <link.h>.
#[repr(C)]
struct Objects {
    version: c_int,
    first: *const Object,
}

unsafe extern "C" {
    static _r_debug: Objects;
    /// This library's own; the linker has made the symbol.
    static _DYNAMIC: [u64; 2];
}

/// The tables of one object.
#[derive(Clone, Copy)]
struct Tables {
    base: usize,
    names: *const c_char,
    symbols: *const libc::Elf64_Sym,
    hash: *const u32,
    /// Null where no symbol has a version.
    versions: *const u16,
}

impl Tables {
    /// # Safety
    /// It is loaded.
    unsafe fn of(object: &Object) -> Option<Self> {
        let base = object.base;
        let value_of = |tag: u64| {
            let mut entry = object.dynamic;
            // SAFETY: by this function's contract, and the section ends with a tag of 0.
            unsafe {
                while (*entry)[0] != 0 {
                    if (*entry)[0] == tag {
                        let value = (*entry)[1] as usize;
                        // Addresses, but for the kernel's own object, where they are not moved.
                        return Some(if value < base { base + value } else { value });
                    }
                    entry = entry.add(1);
                }
            }
            None
        };
        Some(Self {
            base,
            names: value_of(DT_STRTAB)? as *const c_char,
            symbols: value_of(DT_SYMTAB)? as *const libc::Elf64_Sym,
            hash: value_of(DT_GNU_HASH)? as *const u32,
            versions: value_of(DT_VERSYM).unwrap_or(0) as *const u16,
        })
    }

    /// The function of that name which programs are linked with today; null if it has none.
    ///
    /// # Safety
    /// The object is still loaded.
    unsafe fn function(&self, name: &CStr) -> *mut c_void {
        let hash = name
            .to_bytes()
            .iter()
            .fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        // SAFETY: the table says itself how long its parts are: buckets, the number of the first
        // symbol in it, words of the filter (64 bits), and a shift for that; then the filter, the
        // buckets, and a chain for each bucket whose last member has bit 0.
        unsafe {
            let [buckets, first, words] = [0, 1, 2].map(|nth| *self.hash.add(nth));
            if buckets == 0 {
                return std::ptr::null_mut();
            }
            let bucket_at = self.hash.add(4 + 2 * words as usize);
            let chain_at = bucket_at.add(buckets as usize);
            let mut number = *bucket_at.add((hash % buckets) as usize);
            while number >= first {
                let link = *chain_at.add((number - first) as usize);
                if link | 1 == hash | 1 && self.is_function(number as usize, name) {
                    let symbol = self.symbols.add(number as usize);
                    return (self.base + (*symbol).st_value as usize) as *mut c_void;
                }
                if link & 1 != 0 {
                    break;
                }
                number += 1;
            }
        }
        std::ptr::null_mut()
    }

    /// # Safety
    /// The symbol's number is one of the table's.
    unsafe fn is_function(&self, number: usize, name: &CStr) -> bool {
        // SAFETY: by this function's contract, and names are C strings.
        unsafe {
            let symbol = &*self.symbols.add(number);
            let is_old = !self.versions.is_null() && *self.versions.add(number) & HIDDEN != 0;
            symbol.st_info & 15 == STT_FUNC
                && symbol.st_shndx != 0
                && !is_old
                && CStr::from_ptr(self.names.add(symbol.st_name as usize)) == name
        }
    }
}

/// The function of that name: of this library, or of the first object behind it that has one.
fn search(name: &CStr, is_own: bool) -> *mut c_void {
    let own = (&raw const _DYNAMIC).addr();
    // SAFETY: the dynamic linker's list; see the head of this file.
    unsafe {
        let mut object = _r_debug.first;
        while !object.is_null() && (*object).dynamic.addr() != own {
            object = (*object).next;
        }
        if !is_own && !object.is_null() {
            object = (*object).next;
        }
        while !object.is_null() {
            let found = Tables::of(&*object).map(|tables| tables.function(name));
            let found = found.unwrap_or(std::ptr::null_mut());
            if is_own || !found.is_null() {
                return found;
            }
            object = (*object).next;
        }
    }
    std::ptr::null_mut()
}

/// What this library answers by that name; null if it does not.
pub fn own(name: &CStr) -> *mut c_void {
    search(name, true)
}

/// A function that is looked for behind this library once, without dlsym.
pub struct Behind {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Behind {
    /// The function of that name.
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address; null when there is none.
    pub fn address(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let found = search(self.name, false);
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

const _: () = assert!(
    offset_of!(libc::Elf64_Sym, st_value) == 8 && size_of::<libc::Elf64_Sym>() == 24,
    "a symbol as elf(5) has it"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_where_the_dynamic_linker_finds_them() {
        for name in [c"shmget", c"dlsym", c"pthread_cond_wait", c"malloc"] {
            // In a test, this library's symbols are the program's.
            let behind = Behind::new(name);
            let found = behind.address();
            assert!(!found.is_null(), "{name:?}");
            assert_eq!(found, behind.address());
            assert_ne!(found, own(name), "{name:?}");
        }
        assert!(own(c"no_function_has_this_name").is_null());
    }
}

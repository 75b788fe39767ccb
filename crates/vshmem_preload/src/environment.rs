//! The environment of a program that is executed: the pool goes along even if the program clears
//! it, because the kernel's IPC would.

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use vshmem_mem::Scratch;

/// Words that a program under `vshmem run` needs; LD_PRELOAD is the first.
const NAMES: [&str; 6] = [
    "LD_PRELOAD",
    "VSHMEM_POOL",
    "VSHMEM_POOL_NAME",
    "VSHMEM_SHARE",
    "VSHMEM_FTOK",
    "VSHMEM_COMMAND",
];

/// `NAME=value` of those that were set when this program began.
static WORDS: OnceLock<Vec<CString>> = OnceLock::new();

/// Remembers the environment. At load, before the program can change it.
pub fn remember() {
    WORDS.get_or_init(|| {
        NAMES
            .iter()
            .filter_map(|name| {
                let value = std::env::var_os(name)?;
                let mut word = name.as_bytes().to_vec();
                word.push(b'=');
                word.extend(value.as_bytes());
                CString::new(word).ok()
            })
            .collect()
    });
}

/// An environment with our words in it. The program's own pointers stay its own.
#[derive(Debug)]
pub struct Environment {
    original: *const *const c_char,
    added: Option<Scratch<u64>>,
}

fn name_of(word: &CStr) -> &[u8] {
    let bytes = word.to_bytes();
    &bytes[..bytes.iter().position(|&byte| byte == b'=').unwrap_or(bytes.len())]
}

impl Environment {
    /// Completes `envp`. Without the heap: callers may be vfork children.
    ///
    /// # Safety
    /// `envp` is null, or a list of C strings that ends with a null, and stays so while this lives.
    pub unsafe fn completed(envp: *const *const c_char) -> Self {
        let untouched = Self { original: envp, added: None };
        let Some(words) = WORDS.get().filter(|words| !words.is_empty()) else { return untouched };
        let mut count = 0;
        let mut present = [false; NAMES.len()];
        if !envp.is_null() {
            loop {
                // SAFETY: the list ends with a null, where the loop ends.
                let word = unsafe { *envp.add(count) };
                if word.is_null() {
                    break;
                }
                // SAFETY: its members are C strings.
                let name = name_of(unsafe { CStr::from_ptr(word) });
                for (seen, ours) in present.iter_mut().zip(words) {
                    *seen |= name == name_of(ours);
                }
                count += 1;
            }
        }
        if present.iter().zip(words).all(|(seen, _)| *seen) {
            return untouched;
        }
        let Some(mut list) = Scratch::<u64>::new(count + words.len() + 1) else {
            return untouched;
        };
        let slots = list.values();
        for (index, slot) in slots[..count].iter_mut().enumerate() {
            // SAFETY: as above; `count` members were counted.
            *slot = unsafe { *envp.add(index) }.addr() as u64;
        }
        let missing = words.iter().zip(&present).filter(|(_, seen)| !**seen);
        for (slot, (word, _)) in slots[count..].iter_mut().zip(missing) {
            *slot = word.as_ptr().addr() as u64;
        }
        Self { original: envp, added: Some(list) }
    }

    /// The list to execute with.
    pub fn list(&mut self) -> *const *const c_char {
        match &mut self.added {
            Some(list) => list.values().as_ptr().cast(),
            None => self.original,
        }
    }
}

//! The environment of a program that is executed: the pool goes along even if the program clears
//! it, because the kernel's IPC would.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{CStr, c_char};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use vshmem_mem::Scratch;
use vshmem_session::is_preload_library;

use crate::process;
use crate::session::{exec, home_namespace, join};

/// Words that a program under `vshmem run` needs; LD_PRELOAD is the first.
const NAMES: [&CStr; 9] = [
    c"LD_PRELOAD",
    c"VSHMEM_POOL",
    c"VSHMEM_POOL_NAME",
    c"VSHMEM_SHARE",
    c"VSHMEM_FTOK",
    c"VSHMEM_COMMAND",
    c"VSHMEM_SPIN",
    c"VSHMEM_NOTICE",
    c"VSHMEM_ONE_HOST",
];

/// `NAME=value` of those that were set when this program began; null of the others.
static WORDS: [AtomicPtr<c_char>; NAMES.len()] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];

/// Where they lie, if they are not longer than usual: a program that does nothing needs no heap.
struct Room(UnsafeCell<[u8; Room::BYTES]>);

impl Room {
    const BYTES: usize = 2048;
}

// SAFETY: written at load, when the program has no other thread yet, and read from then on.
unsafe impl Sync for Room {}

static ROOM: Room = Room(UnsafeCell::new([0; Room::BYTES]));

/// A word of the environment as it is now.
fn value_of(name: &CStr) -> Option<&CStr> {
    // SAFETY: the name is a C string, and so is what libc finds; at load nobody changes it.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    }
}

/// Remembers the environment. At load, before the program can change it.
pub fn remember() {
    if let Some(ids) = value_of(home_namespace::NAME) {
        home_namespace::take(ids.to_bytes());
        // Its own word follows if the next program needs one.
        // SAFETY: the name is a C string; other threads of the program do not run yet.
        unsafe { libc::unsetenv(home_namespace::NAME.as_ptr()) };
    }
    // SAFETY: by that of `Room`.
    let mut left: &'static mut [u8] = unsafe { &mut *ROOM.0.get() };
    for (name, place) in NAMES.iter().zip(&WORDS) {
        let Some(value) = value_of(name) else { continue };
        let parts = [name.to_bytes(), b"=", value.to_bytes_with_nul()];
        let bytes = parts.iter().map(|part| part.len()).sum();
        let word = match left.split_at_mut_checked(bytes) {
            Some((word, rest)) => {
                left = rest;
                word
            }
            None => {
                left = &mut [];
                Box::leak(vec![0; bytes].into_boxed_slice())
            }
        };
        let text = parts.into_iter().flatten();
        word.iter_mut().zip(text).for_each(|(to, byte)| *to = *byte);
        place.store(word.as_mut_ptr().cast(), Ordering::Release);
    }
}

/// `NAME=value` of those that were set when this program began.
struct Words {
    list: [&'static CStr; NAMES.len()],
    count: usize,
}

impl Words {
    fn remembered() -> Self {
        let mut words = Self { list: [c""; NAMES.len()], count: 0 };
        for place in &WORDS {
            let word = place.load(Ordering::Acquire);
            if !word.is_null() {
                // SAFETY: a C string that is never changed or freed.
                words.list[words.count] = unsafe { CStr::from_ptr(word) };
                words.count += 1;
            }
        }
        words
    }

    fn as_slice(&self) -> &[&'static CStr] {
        &self.list[..self.count]
    }
}

/// What one of them said when this program began.
pub fn remembered(name: &CStr) -> Option<&'static CStr> {
    let words = Words::remembered();
    let word = words.as_slice().iter().find(|word| name_of(word) == name.to_bytes())?;
    let value = word.to_bytes_with_nul().get(name.to_bytes().len() + 1..)?;
    CStr::from_bytes_with_nul(value).ok()
}

/// A list that a child of vfork has made in its parent's memory, and left there as its program was
/// replaced: whose, where, and how long. The thread whose child it was gives it back when it
/// executes the next program or makes its next child.
struct LeftBehind {
    list: Cell<(usize, usize)>,
    composed: [Cell<(usize, usize)>; 2],
}

const NOWHERE: (usize, usize) = (0, 0);

thread_local! {
    static LEFT_BEHIND: LeftBehind = const {
        LeftBehind { list: Cell::new(NOWHERE), composed: [const { Cell::new(NOWHERE) }; 2] }
    };
}

impl LeftBehind {
    /// To be called where the thread's last child of vfork is over.
    fn give_back() {
        LEFT_BEHIND.with(|left| {
            for range in std::iter::once(&left.list).chain(&left.composed) {
                let (start, bytes) = range.replace(NOWHERE);
                if let Some(start) = NonNull::new(start as *mut u8) {
                    // SAFETY: the child that has made it does not run in this memory any more, and
                    // no other code knows it.
                    let _ = unsafe { vshmem_mem::unmap(start, bytes) };
                }
            }
        });
    }

    fn note(list: &mut Scratch<u64>, composed: [Option<&mut Scratch<u64>>; 2]) {
        let range = |values: &mut [u64]| (values.as_ptr().addr(), size_of_val(values));
        LEFT_BEHIND.with(|left| {
            left.list.set(range(list.values()));
            for (place, words) in left.composed.iter().zip(composed) {
                place.set(words.map_or(NOWHERE, |words| range(words.values())));
            }
        });
    }

    /// The child has given it back itself: its program was not replaced.
    fn forget() {
        LEFT_BEHIND.with(|left| {
            left.list.set(NOWHERE);
            left.composed.iter().for_each(|place| place.set(NOWHERE));
        });
    }
}

/// An environment with our words in it. The program's own pointers stay its own.
#[derive(Debug)]
pub struct Environment {
    original: *const *const c_char,
    added: Option<Scratch<u64>>,
    /// Words of `added` that were composed.
    preload: Option<Scratch<u64>>,
    ids: Option<Scratch<u64>>,
    /// Made in the memory of another process, which outlives this one's program.
    is_away: bool,
}

/// Path of this library: the first in the LD_PRELOAD that we were started with.
fn library<'a>(words: &[&'a CStr]) -> Option<&'a [u8]> {
    let preload = words.iter().find(|word| name_of(word) == b"LD_PRELOAD")?.to_bytes();
    preload["LD_PRELOAD=".len()..].split(|byte| b": ".contains(byte)).next()
}

fn name_of(word: &CStr) -> &[u8] {
    let bytes = word.to_bytes();
    &bytes[..bytes.iter().position(|&byte| byte == b'=').unwrap_or(bytes.len())]
}

/// Whether a value of LD_PRELOAD names one of our libraries. It need not be this one: `vshmem run`
/// under `vshmem run` has chosen for its program, and two of them in one would each answer calls.
fn preloads(value: &[u8]) -> bool {
    value.split(|byte| b"=: ".contains(byte)).any(is_preload_library)
}

/// `LD_PRELOAD=` with our library before those of `word`, which names others.
fn preload_before(word: &CStr, library: &[u8]) -> Option<Scratch<u64>> {
    let name = b"LD_PRELOAD=";
    let others = word.to_bytes().get(name.len()..).unwrap_or_default();
    let colon: &[u8] = if others.is_empty() { b"" } else { b":" };
    let parts = [name.as_slice(), library, colon, others];
    let bytes = parts.iter().map(|part| part.len()).sum::<usize>() + 1;
    let mut composed = Scratch::<u64>::new(bytes.div_ceil(8))?;
    let text = parts.into_iter().flatten().chain([&0]);
    for (index, byte) in text.enumerate() {
        composed.values()[index / 8] |= u64::from(*byte) << (8 * (index % 8));
    }
    Some(composed)
}

/// `LD_PRELOAD=` with those of `word` that are none of our libraries.
fn preload_without(word: &CStr) -> Option<Scratch<u64>> {
    let name = b"LD_PRELOAD=";
    let all = word.to_bytes().get(name.len()..).unwrap_or_default();
    let mut composed = Scratch::<u64>::new((word.to_bytes().len() + 1).div_ceil(8))?;
    let others = all.split(|byte| b": ".contains(byte)).filter(|other| !is_preload_library(other));
    let mut used = 0;
    let mut put = |byte: u8| {
        composed.values()[used / 8] |= u64::from(byte) << (8 * (used % 8));
        used += 1;
    };
    name.iter().for_each(|byte| put(*byte));
    for (nth, other) in others.enumerate() {
        (if nth > 0 { b":".iter() } else { [].iter() }).chain(other).for_each(|byte| put(*byte));
    }
    Some(composed)
}

/// What a list of words has.
struct Found {
    /// Its words.
    count: usize,
    /// Which of ours it has.
    present: [bool; NAMES.len()],
    /// Which of its words is LD_PRELOAD as it is not to be, and what is to be in its place.
    others: Option<(usize, Scratch<u64>)>,
}

/// # Safety
/// As for [`Environment::completed`].
unsafe fn look_through(envp: *const *const c_char, words: &[&CStr], takes_library: bool) -> Found {
    let library = library(words);
    let mut found = Found { count: 0, present: [false; NAMES.len()], others: None };
    if !takes_library {
        let is_preload = |word: &CStr| name_of(word) == b"LD_PRELOAD";
        for (seen, ours) in found.present.iter_mut().zip(words) {
            *seen = is_preload(ours);
        }
    }
    if envp.is_null() {
        return found;
    }
    loop {
        // SAFETY: the list ends with a null, where the loop ends.
        let word = unsafe { *envp.add(found.count) };
        if word.is_null() {
            return found;
        }
        // SAFETY: its members are C strings.
        let word = unsafe { CStr::from_ptr(word) };
        let name = name_of(word);
        for (seen, ours) in found.present.iter_mut().zip(words) {
            *seen |= name == name_of(ours);
        }
        if let Some(library) = library
            && name == b"LD_PRELOAD"
            && preloads(&word.to_bytes()[name.len()..]) != takes_library
        {
            let composed =
                if takes_library { preload_before(word, library) } else { preload_without(word) };
            found.others = composed.map(|composed| (found.count, composed));
        }
        found.count += 1;
    }
}

impl Environment {
    /// Completes `envp` for a program that replaces this one; `takes_library` says whether this
    /// library is to be preloaded into it. Without the heap: callers may be vfork children.
    ///
    /// # Safety
    /// `envp` is null, or a list of C strings that ends with a null, and stays so while this lives.
    pub unsafe fn completed(envp: *const *const c_char, takes_library: bool) -> Self {
        let rejoins = process::joined()
            .is_some_and(|session| session.client().others_busy() || exec::leaves_attaches());
        // SAFETY: the same contract.
        unsafe { Self::with_words(envp, rejoins, takes_library) }
    }

    /// Completes `envp` for the program of a child, which has nothing to take over.
    ///
    /// # Safety
    /// As for [`Environment::completed`].
    pub unsafe fn of_child(envp: *const *const c_char, takes_library: bool) -> Self {
        // SAFETY: the same contract.
        unsafe { Self::with_words(envp, false, takes_library) }
    }

    unsafe fn with_words(envp: *const *const c_char, rejoins: bool, takes_library: bool) -> Self {
        // A thread has one child of vfork at a time: the last one is over.
        LeftBehind::give_back();
        let is_away = !process::owns_its_memory();
        let untouched =
            Self { original: envp, added: None, preload: None, ids: None, is_away: false };
        let words = Words::remembered();
        let words = words.as_slice();
        if words.is_empty() {
            return untouched;
        }
        // SAFETY: the same contract.
        let Found { count, present, others } = unsafe { look_through(envp, words, takes_library) };
        let mut ids = home_namespace::handed_on();
        if !rejoins
            && ids.is_none()
            && others.is_none()
            && present.iter().zip(words).all(|(seen, _)| *seen)
        {
            return untouched;
        }
        let Some(mut list) = Scratch::<u64>::new(count + words.len() + 3) else {
            return untouched;
        };
        let slots = list.values();
        for (index, slot) in slots[..count].iter_mut().enumerate() {
            // SAFETY: as above; `count` members were counted.
            *slot = unsafe { *envp.add(index) }.addr() as u64;
        }
        let mut preload = None;
        if let Some((index, mut composed)) = others {
            slots[index] = composed.values().as_ptr().addr() as u64;
            preload = Some(composed);
        }
        let missing = words.iter().zip(&present).filter(|(_, seen)| !**seen);
        let missing = missing.map(|(word, _)| *word);
        let words = missing.chain(rejoins.then_some(join::REJOIN)).map(|word| word.as_ptr().addr());
        let ids_at = ids.as_mut().map(|text| text.values().as_ptr().addr());
        for (slot, word) in slots[count..].iter_mut().zip(words.chain(ids_at)) {
            *slot = word as u64;
        }
        if is_away {
            LeftBehind::note(&mut list, [preload.as_mut(), ids.as_mut()]);
        }
        Self { original: envp, added: Some(list), preload, ids, is_away }
    }

    /// The list to execute with.
    pub fn list(&mut self) -> *const *const c_char {
        match &mut self.added {
            Some(list) => list.values().as_ptr().cast(),
            None => self.original,
        }
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        if self.is_away {
            LeftBehind::forget();
        }
        // The list points to it.
        drop(self.added.take());
        drop(self.preload.take());
        drop(self.ids.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preload_of_the_programs_own_gets_our_library_in_front() {
        for (word, whole) in [
            (c"LD_PRELOAD=", c"LD_PRELOAD=/x/ours.so"),
            (c"LD_PRELOAD=a.so b.so", c"LD_PRELOAD=/x/ours.so:a.so b.so"),
        ] {
            let mut composed = preload_before(word, b"/x/ours.so").unwrap();
            let text: Vec<u8> = composed.values().iter().flat_map(|w| w.to_le_bytes()).collect();
            assert_eq!(CStr::from_bytes_until_nul(&text).unwrap(), whole);
        }
        for (word, rest) in [
            (c"LD_PRELOAD=/x/libvshmem_preload.so", c"LD_PRELOAD="),
            (c"LD_PRELOAD=/y/libvshmem_preload_sysv.so:a.so b.so", c"LD_PRELOAD=a.so:b.so"),
        ] {
            let mut composed = preload_without(word).unwrap();
            let text: Vec<u8> = composed.values().iter().flat_map(|w| w.to_le_bytes()).collect();
            assert_eq!(CStr::from_bytes_until_nul(&text).unwrap(), rest);
        }
        assert!(preloads(b"=a.so:/x/libvshmem_preload.so"));
        assert!(preloads(b"=/y/libvshmem_preload_sysv.so"), "either of them is enough");
        assert!(!preloads(b"=a.so:/x/libvshmem_preload.so.old"));
    }
}

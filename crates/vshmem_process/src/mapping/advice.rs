//! madvise(2), msync(2), mlock(2), mseal(2) and their kin: what the kernel keeps of a mapping
//! beside its rights cuts it in pieces as other rights do, and decides whether a child inherits it.

use libc::{c_int, c_uint};
use vshmem_ipc::Client;
use vshmem_link::Memory;

use crate::attached::addresses::PAGE;
use crate::attached::attach_table::{Marks, Piece};
use crate::attached::future_locks::{self, ON_FAULT};
use crate::attached::{fixed, mapping_cache, pieces};
use crate::mapping::change::change;
use crate::mapping::whole_units;
use crate::next::system_call;
use crate::{errno, process};

const LOCKS: Marks = ON_FAULT;
const ORDERS: Marks = Marks::RANDOM.and(Marks::SEQUENTIAL);

/// Whether a range lies in an attached segment whose pages are a device's: the kernel has nothing
/// to drop or to write back there, and refuses with EINVAL to do so.
fn is_device_memory(start: usize, bytes: usize) -> bool {
    let bytes = bytes.next_multiple_of(PAGE);
    errno::get() == libc::EINVAL
        && start.is_multiple_of(PAGE)
        && process::joined()
            .is_some_and(|session| session.link().capabilities().memory == Memory::Device)
        && pieces::holds(start, bytes)
}

/// msync(2), by whatever call: memory has nothing to write back.
pub fn synchronize(
    start: usize,
    bytes: usize,
    flags: c_int,
    call: impl FnOnce() -> c_int,
) -> c_int {
    mapping_cache::drop_range(start, bytes);
    let result = call();
    // Other flags are refused everywhere.
    let known = [libc::MS_SYNC, libc::MS_ASYNC, 0].contains(&(flags & !libc::MS_INVALIDATE));
    if result == -1 && known && is_device_memory(start, bytes) {
        return 0;
    }
    result
}

/// What a mapping keeps of a piece of advice. `None`: nothing, or nothing that is known.
fn kept(advice: c_int) -> Option<fn(Marks) -> Marks> {
    Some(match advice {
        libc::MADV_NORMAL => |marks| marks.without(ORDERS),
        libc::MADV_RANDOM => |marks| marks.without(ORDERS).and(Marks::RANDOM),
        libc::MADV_SEQUENTIAL => |marks| marks.without(ORDERS).and(Marks::SEQUENTIAL),
        libc::MADV_DONTFORK => |marks| marks.and(Marks::NOT_INHERITED),
        libc::MADV_DOFORK => |marks| marks.without(Marks::NOT_INHERITED),
        libc::MADV_DONTDUMP => |marks| marks.and(Marks::NOT_DUMPED),
        libc::MADV_DODUMP => |marks| marks.without(Marks::NOT_DUMPED),
        libc::MADV_HUGEPAGE => |marks| marks.without(Marks::NOT_HUGE).and(Marks::HUGE),
        libc::MADV_NOHUGEPAGE => |marks| marks.without(Marks::HUGE).and(Marks::NOT_HUGE),
        _ => return None,
    })
}

/// Advice that leaves nothing with a mapping.
const PASSING: [c_int; 7] = [
    libc::MADV_DONTNEED,
    libc::MADV_WILLNEED,
    libc::MADV_REMOVE,
    libc::MADV_COLD,
    libc::MADV_PAGEOUT,
    libc::MADV_POPULATE_READ,
    libc::MADV_POPULATE_WRITE,
];

/// madvise(2), by whatever call.
pub fn advise(start: usize, bytes: usize, advice: c_int, call: impl FnOnce() -> c_int) -> c_int {
    errno::untouched(|| mapping_cache::drop_range(start, bytes));
    let length = bytes.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
    let changing = if PASSING.contains(&advice) { None } else { change(start, length) };
    // The kernel could not bring such pages back, and its children have none of them anyhow.
    let left_alone = matches!(
        advice,
        libc::MADV_DONTNEED
            | libc::MADV_COLD
            | libc::MADV_PAGEOUT
            | libc::MADV_DONTFORK
            | libc::MADV_DOFORK
    );
    let mut result = if left_alone && start.is_multiple_of(PAGE) && fixed::holds(start, bytes) {
        0
    } else {
        advise_as_kept(call(), start, length, advice)
    };
    // Of a device's memory nothing is ever dumped, and the kernel refuses to be asked for it.
    if result == -1 && advice == libc::MADV_DODUMP && is_device_memory(start, bytes) {
        result = 0;
    }
    if result == -1 && advice == libc::MADV_DONTNEED && is_device_memory(start, bytes) {
        // Shared memory keeps what it holds: nothing to do.
        return 0;
    }
    if result == 0
        && let Some(changing) = &changing
    {
        let marks = kept(advice);
        if !matches!(advice, libc::MADV_DONTFORK | libc::MADV_DOFORK) {
            stays(start, length);
        }
        if let Some(marks) = marks {
            pieces::mark(changing.session().client(), start, length, |_| true, marks);
        }
    }
    result
}

/// What madvise(2) has returned, or what it returns for whole units: where its advice stays with a
/// mapping. Other advice can change what the pages hold (MADV_REMOVE), and those of others are in
/// the same unit.
fn advise_as_kept(result: c_int, start: usize, bytes: usize, advice: c_int) -> c_int {
    if kept(advice).is_none() {
        return result;
    }
    whole_units::again(result, start, bytes, |start, bytes| {
        units(libc::SYS_madvise, start, bytes, advice as usize)
    })
}

/// A call on a mapping, for whole units.
fn units(number: libc::c_long, start: usize, bytes: usize, word: usize) -> c_int {
    // SAFETY: the program asks for it of what it has mapped there, and nothing else is in the
    // units. What is called changes no content.
    (unsafe { system_call(number, [start, bytes, word]) }) as c_int
}

/// What a program has done to a range would stay with the mapping after a detach: if the range is
/// an attached segment's, mappings are unmapped from now on rather than kept.
fn stays(start: usize, bytes: usize) {
    let end = start.saturating_add(bytes);
    if pieces::find(|piece| piece.touches(start, end)).is_some() {
        errno::untouched(mapping_cache::close);
    }
}

/// A call that locks a range, or unlocks it: whole pages, from wherever it begins.
pub fn lock(start: usize, bytes: usize, locks: Marks, call: impl FnOnce() -> c_int) -> c_int {
    let locks_any = locks != Marks::none();
    let first = start & !(PAGE - 1);
    let length = (bytes.saturating_add(start - first)).checked_next_multiple_of(PAGE);
    let length = length.unwrap_or(usize::MAX);
    errno::untouched(|| mapping_cache::drop_range(first, length));
    let changing = change(first, length);
    if changing.is_some() {
        stays(first, length);
    }
    let number = if locks_any { libc::SYS_mlock2 } else { libc::SYS_munlock };
    let flags = if locks == ON_FAULT { libc::MLOCK_ONFAULT as usize } else { 0 };
    let result = whole_units::again(call(), first, length, |start, bytes| {
        units(number, start, bytes, flags)
    });
    if let Some(changing) = &changing {
        let change = |marks: Marks| marks.without(LOCKS).and(locks);
        // Of such a device the kernel keeps none, and cuts no mapping for it.
        let is_kept = changing.session().link().capabilities().page_bytes == PAGE as u64;
        let is_done = |piece: Piece| result == 0 || is_locked(piece.start.max(first)) == locks_any;
        let done = |piece: Piece| is_kept && is_done(piece);
        pieces::mark(changing.session().client(), first, length, done, change);
    }
    result
}

/// mseal(2), by whatever call: what is sealed can neither be unmapped nor moved nor be given other
/// rights.
pub fn seal(start: usize, bytes: usize, call: impl FnOnce() -> c_int) -> c_int {
    let length = bytes.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
    errno::untouched(|| mapping_cache::drop_range(start, length));
    let changing = change(start, length);
    if changing.is_some() {
        stays(start, length);
    }
    let result = whole_units::again(call(), start, length, |start, bytes| {
        units(libc::SYS_mseal, start, bytes, 0)
    });
    if result == 0
        && let Some(changing) = &changing
    {
        let sealed = |marks: Marks| marks.and(Marks::SEALED);
        pieces::mark(changing.session().client(), start, length, |_| true, sealed);
    }
    result
}

/// Whether the kernel has a page locked. A call that fails has locked or unlocked what it came by:
/// it fails because something else is not mapped, or because a page cannot be had.
fn is_locked(page: usize) -> bool {
    let words = [page, PAGE, libc::MADV_DONTNEED as usize];
    errno::untouched(|| {
        // SAFETY: the page is a shared mapping's, whose content stays where it is; the kernel does
        // not drop locked ones, and says so.
        unsafe { system_call(libc::SYS_madvise, words) != 0 && errno::get() == libc::EINVAL }
    })
}

/// What mlock2(2) locks.
pub fn locks_of(flags: c_uint) -> Marks {
    if flags & libc::MLOCK_ONFAULT != 0 { LOCKS } else { Marks::LOCKED }
}

/// mlockall(2), by whatever call.
pub fn lock_all(flags: c_int, call: impl FnOnce() -> c_int) -> c_int {
    errno::untouched(mapping_cache::close);
    let changing = change(0, usize::MAX);
    let result = call();
    if result == 0 {
        future_locks::set(flags);
        if flags & libc::MCL_CURRENT != 0
            && let Some(changing) = &changing
        {
            mark_all(changing.session().client(), future_locks::locks_of_all(flags));
        }
    }
    result
}

/// munlockall(2), by whatever call.
pub fn unlock_all(call: impl FnOnce() -> c_int) -> c_int {
    let changing = change(0, usize::MAX);
    let result = call();
    if result == 0 {
        future_locks::set(0);
        if let Some(changing) = &changing {
            mark_all(changing.session().client(), Marks::none());
        }
    }
    result
}

fn mark_all(this_client: &Client, locks: Marks) {
    pieces::mark(this_client, 0, usize::MAX, |_| true, |marks| marks.without(LOCKS).and(locks));
}

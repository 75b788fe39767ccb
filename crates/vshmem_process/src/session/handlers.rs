//! The program's signal handlers: each is entered through ours, which notes that it ran.
//!
//! A blocking System V call must end with EINTR when a handler runs, at whatever instruction of
//! ours that happens (see `vshmem_mem::signal_handled`).
//!
//! # What a handler reads
//! A handler runs between any two instructions of its thread, and may make System V calls of its
//! own. So whatever this library keeps for a thread or a process is read by handlers, at every
//! moment of being written:
//!
//! | what | why it is safe |
//! |---|---|
//! | `vshmem_mem::interrupted` (handlers counted, the word slept on, whether a cancellation ends the call, calls that a filter waits for, the place in a wait queue) | one word each, or guaranteed by a flag that is 0 while they are written; in the thread's static block, so that no handler allocates. A place is taken once, and only believed if the slot is this thread's and its lock is a lock |
//! | `HANDLERS`, `RESTARTING` here | one word for each signal. `DETAILED` is read by sigaction alone |
//! | `thread_words` | one word each; the array of robust mutexes is no handler's: pthread_mutex_lock is not for handlers |
//! | `process::SESSION`, `MARK` | one word, set once; what it points to is never freed |
//! | `join::SETUP` | one word, which says who sets up: a handler that has interrupted it gets ENOSYS and does not wait for itself |
//! | `process::HOME`, `BARE_CHILDREN`, `mapping_cache::ALLOWED`, `CLOSED`, `future_locks::LATER`, `agent::LAST`, `vshmem_mem`'s `CONFINED`, `INSIDE`, `CANCELLATIONS`, `ONE_WORD`, the clock's `WAY`, `vshmem_link`'s descriptor numbers | one word each |
//! | the clock's remembered second | 0 while it is written with its tick |
//! | `caller::KNOWN` and `OWN` | `changes` is 0 while they are written; a thread that finds them so asks the kernel |
//! | `home_namespace::KNOWN`, and the ids there | one word each; what `KNOWN` points to is never changed or freed |
//! | `exec::GIVEN_UP` | one word; what it points to is changed with all signals blocked |
//! | `fork::UNDER_WAY` | one level for each fork inside another; the depth is raised before a level is used |
//! | `pieces::PIECES`, `object_descriptors::open::OPEN`, `mapping_cache::ENTRIES` | an entry is its claimer's until its state word says so; a handler passes over it |
//! | `user::PAGES` | one word each: page and rights |
//! | `agent::STARTER`, `environment::WORDS`, `route::SHARE`, a client's `doorbell` and `watchdog`, `vshmem_agent`'s surroundings | set once, at load or on joining; before that, there is none |
//! | `next!`'s addresses | one word each; a thread that finds none looks the symbol up, and all find the same |
//! | a client's `client` and `pid` | one word each, changed in a new child before its program goes on |
//! | a client's slot guards | claimed by one word; a handler takes another slot guard, and takes over locks of its own thread |
//! | a client's chunk cache, hints, spin, reported sizes | one word each, swapped, or checked before use |

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::{c_int, c_ulong, c_void, siginfo_t};
use vshmem_mem::signal_mask;

use crate::attached::attach_table;
use crate::next;
use crate::session::{departure, exec, thread_words};
use crate::{errno, process};

/// Signals there are (_NSIG).
const SIGNALS: usize = 65;

/// The program's handlers.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
/// Whether SA_SIGINFO was asked for.
static DETAILED: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
/// Whether SA_RESTART was: calls go on that the kernel begins again (sem_wait).
static RESTARTING: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

/// Entered by the kernel. It takes little of the stack: programs make their signal stacks as large
/// as the kernel says that handlers need (AT_MINSIGSTKSZ), and hardly larger.
unsafe extern "C" fn enter(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the context to a handler that was installed with SA_SIGINFO, and it
    // stays for as long.
    let interrupted: Option<&libc::ucontext_t> =
        unsafe { context.cast::<libc::ucontext_t>().as_ref() };
    if signal == departure::NOTICE {
        if departure::is_noticed() {
            return on_interrupted_stack(interrupted, departure::part, 0);
        }
        // The program takes no notice of it.
        if HANDLERS[signal as usize].load(Ordering::Acquire) <= 1 {
            return;
        }
    }
    if RESTARTING.get(signal as usize).is_none_or(|word| word.load(Ordering::Relaxed) == 0) {
        thread_words::note_interruption();
    }
    vshmem_mem::signal_handled();
    if vshmem_mem::is_waiter_shown() {
        on_interrupted_stack(interrupted, leave_wait_queue, 0);
    }
    let Some(handler) = HANDLERS.get(signal as usize) else { return };
    let address = handler.load(Ordering::Acquire);
    if address > 1 {
        // An exec that is being tried has none; the handler may store into what is attached.
        let given_up = exec::given_up();
        if given_up != 0 {
            on_interrupted_stack(interrupted, exec::take_again, given_up);
        }
        // SAFETY: the program has given this address as its handler; one that takes a single
        // argument ignores the others by the C calling convention.
        unsafe {
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                std::mem::transmute(address);
            let paused = attach_table::pause();
            vshmem_mem::outside_of_cancellable(|| handler(signal, info, context));
            attach_table::resume(&paused);
        }
        if given_up != 0 {
            on_interrupted_stack(interrupted, exec::give_up_again, given_up);
        }
    }
}

/// Does something that takes a lock, and some kilobytes of stack: a handler on a signal stack does
/// it on the stack of the interrupted thread, which had the room for the call.
#[cold]
#[inline(never)]
fn on_interrupted_stack(
    context: Option<&libc::ucontext_t>,
    work: extern "C" fn(usize),
    argument: usize,
) {
    let Some(top) = context.and_then(interrupted_stack) else { return work(argument) };
    // The kernel takes a thread that is not on its signal stack for one that has left it, and would
    // put the next signal's frame over ours.
    let Some(before) = signal_mask::block_all() else { return work(argument) };
    // SAFETY: nothing lives below the red zone of the interrupted stack; the thread goes on there
    // only after this handler, and no other handler can run meanwhile.
    unsafe { call_on(top, work, argument) };
    signal_mask::set(before);
}

/// Ends the sleep that the handler has interrupted.
extern "C" fn leave_wait_queue(_: usize) {
    if let Some(session) = process::joined() {
        errno::untouched(|| session.client().interrupt());
    }
}

/// Where the stack of the interrupted thread ends, if the kernel has left it for a signal stack.
fn interrupted_stack(context: &libc::ucontext_t) -> Option<usize> {
    /// What a compiler may use below the stack pointer, and more.
    const RED_ZONE: usize = 256;
    #[cfg(target_arch = "x86_64")]
    let interrupted = context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let interrupted = context.uc_mcontext.sp as usize;
    let stack = &context.uc_stack;
    let on_it = |at: usize| at.wrapping_sub(stack.ss_sp.addr()) < stack.ss_size;
    let here = (&raw const interrupted).addr();
    (on_it(here) && !on_it(interrupted)).then_some((interrupted - RED_ZONE) & !15)
}

/// Calls a function on another stack.
///
/// # Safety
/// Below `top` there is a stack that is not used.
unsafe fn call_on(top: usize, function: extern "C" fn(usize), argument: usize) {
    // SAFETY: the function keeps the register that the former stack pointer is in, as every C
    // function does.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {function}",
            "mov rsp, r12",
            top = in(reg) top,
            function = in(reg) function,
            in("rdi") argument,
            out("r12") _,
            clobber_abi("C"),
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {function}",
            "mov sp, x20",
            top = in(reg) top,
            function = in(reg) function,
            in("x0") argument,
            out("x20") _,
            clobber_abi("C"),
        );
    }
}

fn ours() -> usize {
    enter as unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize
}

/// Whether [`departure::NOTICE`] comes by here whatever the program does on it.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

fn is_watched() -> bool {
    IS_WATCHED.load(Ordering::SeqCst)
}

/// Has [`departure::NOTICE`] come by here from now on.
pub fn watch_for_notice() {
    if IS_WATCHED.swap(true, Ordering::SeqCst) {
        return;
    }
    let call = |action: *const libc::sigaction, before: *mut libc::sigaction| {
        next!(c"sigaction": fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int,
              (departure::NOTICE, action, before), -1)
    };
    // SAFETY: all-zero bytes are a valid sigaction.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let asked = call(std::ptr::null(), &raw mut before) == 0;
    // One that the program has is entered through ours already.
    if asked && [libc::SIG_DFL, libc::SIG_IGN].contains(&before.sa_sigaction) {
        HANDLERS[departure::NOTICE as usize].store(before.sa_sigaction, Ordering::Release);
        action.sa_sigaction = ours();
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        call(&raw const action, std::ptr::null_mut());
    }
}

/// What is done on a signal, as the C library or the kernel has it.
pub trait Action: Copy {
    /// The handler's address, or SIG_DFL or SIG_IGN.
    fn handler(&self) -> usize;
    /// Whether it has a flag.
    fn has(&self, flag: c_int) -> bool;
    /// Sets the handler, and whether SA_SIGINFO.
    fn set_handler(&mut self, handler: usize, is_detailed: bool);
}

impl Action for libc::sigaction {
    fn handler(&self) -> usize {
        self.sa_sigaction
    }

    fn has(&self, flag: c_int) -> bool {
        self.sa_flags & flag != 0
    }

    fn set_handler(&mut self, handler: usize, is_detailed: bool) {
        self.sa_sigaction = handler;
        self.sa_flags &= !libc::SA_SIGINFO;
        self.sa_flags |= if is_detailed { libc::SA_SIGINFO } else { 0 };
    }
}

/// `struct sigaction` of the kernel, with the mask of all its signals.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct KernelAction {
    handler: usize,
    flags: c_ulong,
    restorer: usize,
    mask: u64,
}

impl Action for KernelAction {
    fn handler(&self) -> usize {
        self.handler
    }

    fn has(&self, flag: c_int) -> bool {
        self.flags & flag as c_ulong != 0
    }

    fn set_handler(&mut self, handler: usize, is_detailed: bool) {
        self.handler = handler;
        self.flags &= !(libc::SA_SIGINFO as c_ulong);
        self.flags |= if is_detailed { libc::SA_SIGINFO as c_ulong } else { 0 };
    }
}

/// sigaction(2), by whatever `call`: the kernel enters a handler of the program's through ours.
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "the call has just written to it")]
pub fn install<A: Action>(
    signal: c_int,
    action: Option<&A>,
    before: *mut A,
    call: impl Fn(*const A, *mut A) -> c_int,
) -> c_int {
    let wanted = action.map_or(std::ptr::null(), std::ptr::from_ref);
    let index = signal as usize;
    let (Some(handler), Some(detailed), Some(restarting)) =
        (HANDLERS.get(index), DETAILED.get(index), RESTARTING.get(index))
    else {
        return call(wanted, before);
    };
    let (old_handler, old_detailed) =
        (handler.load(Ordering::Acquire), detailed.load(Ordering::Acquire));
    let is_handler =
        |action: &&A| ![libc::SIG_DFL, libc::SIG_IGN, ours()].contains(&action.handler());
    let result = match action.filter(is_handler) {
        Some(&(mut replaced)) => {
            // The handler first: the signal may come the moment that the action is set.
            handler.store(replaced.handler(), Ordering::Release);
            detailed.store(replaced.has(libc::SA_SIGINFO).into(), Ordering::Release);
            let restarted_before = restarting.load(Ordering::Relaxed);
            restarting.store(replaced.has(libc::SA_RESTART).into(), Ordering::Relaxed);
            replaced.set_handler(ours(), true);
            let result = call(&raw const replaced, before);
            if result != 0 {
                handler.store(old_handler, Ordering::Release);
                detailed.store(old_detailed, Ordering::Release);
                restarting.store(restarted_before, Ordering::Relaxed);
            }
            result
        }
        // That signal comes by here whatever the program does on it.
        None if action.is_some() && signal == departure::NOTICE && is_watched() => {
            handler.store(action.map_or(libc::SIG_DFL, Action::handler), Ordering::Release);
            call(std::ptr::null(), before)
        }
        None => call(wanted, before),
    };
    if result == 0 {
        // SAFETY: a non-null pointer is valid by contract, and was just filled in.
        if let Some(before) = unsafe { before.as_mut() }
            && before.handler() == ours()
        {
            before.set_handler(old_handler, old_detailed != 0);
        }
    }
    result
}

//! syscall(2): programs that call by number.

use libc::{c_char, c_int, c_long, c_void};
use vshmem_mem::Confined;

use crate::intercept::one_host::getppid;
use crate::intercept::{by_number, limits, msg, paths_by_number, sem, shm};
use vshmem_process::attached::attach_table::Marks;
use vshmem_process::mapping::{advice, protect, remap, unmap};
use vshmem_process::next::pass_on;
use vshmem_process::one_host::{self, pids};
use vshmem_process::posix::map::{self, Request};
use vshmem_process::session::environment::Environment;
use vshmem_process::session::handlers::{self, KernelAction};
use vshmem_process::session::outside::{self, Program};
use vshmem_process::session::{
    adjustments, caller, confined, exec, exit, home_namespace, join, reap,
};

/// IPC_64, which libc adds to the commands of the raw control calls.
const IPC_64: c_int = 0x100;

/// A call by number, with its arguments as six words.
#[derive(Debug, Clone, Copy)]
struct Call {
    number: c_long,
    words: [usize; 6],
}

/// syscall(2). C's variadic arguments travel as six words.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let mut call = Call { number, words: [a, b, c, d, e, f] };
    if one_host::is_on() {
        match pids::by_number(number, call.words) {
            Ok(words) => call.words = words,
            Err(answer) => return answer,
        }
    }
    // SAFETY: the arguments are those that the program has passed for the call of this number.
    let answer = unsafe {
        call.on_objects()
            .or_else(|| call.on_mappings())
            .or_else(|| by_number::on_descriptors(call.number, call.words))
            .or_else(|| paths_by_number::on_paths(call.number, call.words))
            .or_else(|| call.on_the_process())
    };
    answer.unwrap_or_else(|| call.passed_on())
}

fn int(word: usize) -> c_int {
    word as c_int
}

/// The command of a control call.
fn command(word: usize) -> c_int {
    int(word) & !IPC_64
}

impl Call {
    /// The call, made by the next library that answers such, or by the kernel.
    fn passed_on(self) -> c_long {
        // SAFETY: the arguments are those that the program has passed for the call of this number.
        unsafe { pass_on(self.number, self.words) }
    }

    fn int_passed_on(self) -> c_int {
        self.passed_on() as c_int
    }

    fn address_passed_on(self) -> *mut c_void {
        self.passed_on() as usize as *mut c_void
    }

    /// System V's.
    ///
    /// # Safety
    /// As for the call of that number.
    unsafe fn on_objects(self) -> Option<c_long> {
        let [a, b, c, d, e, _] = self.words;
        // SAFETY: by this function's own contract.
        Some(unsafe {
            match self.number {
                libc::SYS_shmget => shm::shmget(int(a), b, int(c)).into(),
                libc::SYS_shmat => {
                    let address = b as *const c_void;
                    shm::attach(int(a), address, int(c), || self.address_passed_on()).addr()
                        as c_long
                }
                libc::SYS_shmdt => shm::detach(a, || self.int_passed_on()).into(),
                libc::SYS_shmctl => shm::shmctl(int(a), command(b), c as *mut _).into(),
                libc::SYS_semget => sem::semget(int(a), int(b), int(c)).into(),
                libc::SYS_semop => sem::semop(int(a), b as *mut _, c).into(),
                libc::SYS_semtimedop => {
                    sem::semtimedop(int(a), b as *mut _, c, d as *const _).into()
                }
                libc::SYS_semctl => sem::semctl(int(a), int(b), command(c), d).into(),
                libc::SYS_msgget => msg::msgget(int(a), int(b)).into(),
                libc::SYS_msgsnd => msg::msgsnd(int(a), b as *const c_void, c, int(d)).into(),
                libc::SYS_msgrcv => {
                    msg::msgrcv(int(a), b as *mut c_void, c, d as c_long, int(e)) as c_long
                }
                libc::SYS_msgctl => msg::msgctl(int(a), command(b), c as *mut _).into(),
                _ => return None,
            }
        })
    }

    /// Those on the address space.
    fn on_mappings(self) -> Option<c_long> {
        let [a, b, c, d, e, f] = self.words;
        let by_int = || self.int_passed_on();
        let by_address = || self.address_passed_on();
        Some(match self.number {
            libc::SYS_mmap => {
                let file = int(e);
                let request = Request {
                    start: a,
                    bytes: b,
                    rights: int(c),
                    flags: int(d),
                    file,
                    offset: f as libc::off_t,
                };
                map::map(request, by_address).addr() as c_long
            }
            libc::SYS_munmap => unmap::unmap(a, b, by_int).into(),
            libc::SYS_mremap => remap::remap(a, b, c, int(d), e, by_address).addr() as c_long,
            libc::SYS_remap_file_pages => remap::show(a, b, int(c), d, by_int).into(),
            libc::SYS_mprotect => protect::protect(a, b, int(c), None, by_int).into(),
            libc::SYS_pkey_mprotect => protect::protect(a, b, int(c), Some(int(d)), by_int).into(),
            libc::SYS_madvise => advice::advise(a, b, int(c), by_int).into(),
            libc::SYS_mlock => advice::lock(a, b, Marks::LOCKED, by_int).into(),
            libc::SYS_mlock2 => advice::lock(a, b, advice::locks_of(c as u32), by_int).into(),
            libc::SYS_munlock => advice::lock(a, b, Marks::none(), by_int).into(),
            libc::SYS_mlockall => advice::lock_all(int(a), by_int).into(),
            libc::SYS_mseal => advice::seal(a, b, by_int).into(),
            libc::SYS_munlockall => advice::unlock_all(by_int).into(),
            _ => return None,
        })
    }

    /// Those that replace, end, confine or change the process.
    ///
    /// # Safety
    /// As for the call of that number.
    unsafe fn on_the_process(self) -> Option<c_long> {
        let [a, b, c, d, _, _] = self.words;
        let by_int = || self.int_passed_on();
        Some(match self.number {
            libc::SYS_getpid | libc::SYS_gettid => pids::shown(self.int_passed_on()).into(),
            // SAFETY: it has no arguments.
            libc::SYS_getppid => unsafe { getppid() }.into(),
            // SAFETY: by this function's own contract.
            libc::SYS_execve | libc::SYS_execveat => unsafe { self.execute() },
            libc::SYS_wait4 => {
                let call = |own: *mut c_int| {
                    // SAFETY: the status goes into a word of ours; the rest is as the program has
                    // it.
                    unsafe { pass_on(self.number, [a, own.addr(), c, d]) as c_int }
                };
                // SAFETY: by this function's own contract.
                unsafe { reap::reap(b as *mut c_int, call) }.into()
            }
            libc::SYS_exit_group => exit::end(int(a)),
            // Another size is refused by the kernel.
            libc::SYS_rt_sigaction if d == size_of::<u64>() => {
                let (action, before) = (b as *const KernelAction, c as *mut KernelAction);
                // SAFETY: by this function's own contract.
                let action = unsafe { action.as_ref() };
                handlers::install(int(a), action, before, |action, before| {
                    // SAFETY: the program's own arguments, but for the handler.
                    unsafe { pass_on(self.number, [a, action.addr(), before.addr(), d]) as c_int }
                })
                .into()
            }
            libc::SYS_chroot => self.in_time(),
            libc::SYS_setrlimit => {
                limits::before_limit_is_set(0, a as u32, true);
                self.passed_on()
            }
            libc::SYS_prlimit64 => {
                limits::before_limit_is_set(int(a), b as u32, c != 0);
                self.passed_on()
            }
            libc::SYS_prctl if int(a) == libc::PR_SET_SECCOMP => {
                confined::confine(Confined::OneThread, by_int).into()
            }
            libc::SYS_seccomp => confined::confine(confined::confined_by(a, b)?, by_int).into(),
            libc::SYS_unshare => self.into_namespaces(a, libc::CLONE_NEWIPC | libc::CLONE_SYSVSEM),
            libc::SYS_setns => self.into_namespaces(b, libc::CLONE_NEWIPC),
            // Where libc's functions of these names change the credentials of all threads, the
            // calls change those of one.
            libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setgroups
            | libc::SYS_capset => self.of_this_thread(),
            _ => return None,
        })
    }

    /// # Safety
    /// As execve(2) and execveat(2).
    unsafe fn execute(self) -> c_long {
        let [a, b, c, d, e, _] = self.words;
        let by_path = self.number == libc::SYS_execve;
        let given = if by_path { c } else { d };
        let takes_library = outside::look(if by_path {
            Program::Path(a as *const c_char)
        } else {
            Program::At { directory: int(a), path: b as *const c_char, flags: int(e) }
        });
        // SAFETY: by this function's own contract.
        let mut environment =
            unsafe { Environment::completed(given as *const *const c_char, takes_library) };
        let list = environment.list().addr();
        let words = if by_path { [a, b, list, 0, 0] } else { [a, b, c, list, e] };
        // SAFETY: the program's own arguments, but for the list that was made of its own.
        let call = || unsafe { pass_on(self.number, words) as c_int };
        exec::detached(by_path.then_some(a as *const c_char), call).into()
    }

    /// unshare(2) and setns(2): the flags that end the adjustments, as exit would.
    fn into_namespaces(self, flags: usize, ends: c_int) -> c_long {
        home_namespace::before_leaving();
        let result = self.of_this_thread();
        if result == 0 {
            home_namespace::note_left();
        }
        if result == 0 && int(flags) & ends != 0 {
            adjustments::end();
        }
        result
    }

    /// A call after which the pool may be out of reach.
    fn in_time(self) -> c_long {
        join::join_in_time();
        self.passed_on()
    }

    /// A call that changes what the calling thread may do.
    fn of_this_thread(self) -> c_long {
        let result = self.in_time();
        caller::note_thread_change();
        result
    }
}

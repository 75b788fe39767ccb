//! mq_notify(3): a thread of this process waits in the pool for the first message, and then sends
//! the process its signal or runs the program's function.
//!
//! The sender may be in another domain, from where no signal comes. So the process tells itself,
//! as glibc does for SIGEV_THREAD. A process that sends the message itself finds the signal pending
//! when its call returns, as with the kernel's queue: so the sender is told which registration its
//! message has ended, and sends the signal of that one instead of the thread.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use libc::{c_int, c_void, pthread_attr_t, sigevent, sigval};
use vshmem_ipc::{Client, Errno, RegistrationEnd};

use crate::mapping::user;
use crate::posix::queue;
use crate::posix::signals_due::{self, NO_SIGNAL, SignalDue};
use crate::process;
use crate::session::current;

/// The highest signal (_NSIG).
const SIGNALS: c_int = 64;

/// `struct sigevent` of SIGEV_THREAD: libc's has only the kernel's part of it.
#[repr(C)]
#[derive(Clone, Copy)]
struct ThreadEvent {
    value: usize,
    signal: c_int,
    kind: c_int,
    function: usize,
    attributes: usize,
}

/// What is to be done when the first message comes.
#[derive(Debug, Clone, Copy)]
enum Notice {
    Nothing,
    Signal(SignalDue),
    Call { function: usize, value: usize },
}

/// What the thread says when it is registered, or why it is not.
#[derive(Debug, Default)]
struct Answer {
    said: Mutex<Option<Result<(), Errno>>>,
    is_said: Condvar,
}

impl Answer {
    fn say(&self, answer: Result<(), Errno>) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.get_or_insert(answer);
        self.is_said.notify_all();
    }

    fn hear(&self) -> Result<(), Errno> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *said {
                Some(answer) => return answer,
                None => said = self.is_said.wait(said).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// What the thread is given.
struct Registration {
    client: &'static Client,
    id: i32,
    notice: Notice,
    answer: Arc<Answer>,
}

/// mq_notify(3).
///
/// # Errors
/// EINVAL for a way or a signal that is none, EBADF, EBUSY, EFAULT; EAGAIN when there can be no
/// thread.
pub fn notify(file: c_int, event: *const sigevent) -> Result<(), Errno> {
    if event.is_null() {
        let id = queue::queue_to_tell_of(file)?;
        return current::watchful_session()?.client().mq_unregister(id);
    }
    // SAFETY: any bytes are the beginning of a sigevent, which is longer than this.
    let event = unsafe { user::read(event.cast::<ThreadEvent>()) }?;
    let notice = match event.kind {
        libc::SIGEV_NONE => Notice::Nothing,
        libc::SIGEV_SIGNAL if event.signal == 0 => Notice::Nothing,
        libc::SIGEV_SIGNAL if (1..=SIGNALS).contains(&event.signal) => {
            let process = process::own_pid();
            Notice::Signal(SignalDue { signal: event.signal, value: event.value, process })
        }
        libc::SIGEV_THREAD => Notice::Call { function: event.function, value: event.value },
        _ => return Err(Errno::INVAL),
    };
    let attributes = match notice {
        Notice::Call { .. } => event.attributes,
        _ => 0,
    };
    let id = queue::queue_to_tell_of(file)?;
    let client = current::watchful_session()?.client();
    let answer = Arc::new(Answer::default());
    let registration = Registration { client, id, notice, answer: Arc::clone(&answer) };
    start(Box::new(registration), attributes)?;
    answer.hear()
}

/// Starts the thread, with all signals blocked: handlers are the program's own threads' to run.
fn start(registration: Box<Registration>, attributes: usize) -> Result<(), Errno> {
    let registration: *mut Registration = Box::into_raw(registration);
    // SAFETY: masks are filled in before they are read; the attributes are null or the program's,
    // valid by mq_notify's contract; the thread takes what it is given over.
    let failed = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        let mut thread: libc::pthread_t = 0;
        let attributes: *const pthread_attr_t = std::ptr::with_exposed_provenance(attributes);
        let failed = libc::pthread_create(&raw mut thread, attributes, run, registration.cast());
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        failed
    };
    if failed == 0 {
        return Ok(());
    }
    // SAFETY: no thread has taken it over.
    drop(unsafe { Box::from_raw(registration) });
    Err(Errno::AGAIN)
}

extern "C" fn run(registration: *mut c_void) -> *mut c_void {
    // SAFETY: `start` has given it to this thread alone.
    let registration = unsafe { Box::from_raw(registration.cast::<Registration>()) };
    detach_self();
    let Registration { client, id, notice, answer } = *registration;
    // Before a message can come.
    let number = match notice {
        Notice::Signal(due) => signals_due::put(due),
        Notice::Nothing | Notice::Call { .. } => NO_SIGNAL,
    };
    let end = client.mq_await_first_message(id, number, &mut || answer.say(Ok(())));
    answer.say(end.map(|_| ()));
    drop(answer);
    // The sender of an own message takes the signal out, perhaps later.
    if end != Ok(RegistrationEnd::OwnMessage) {
        signals_due::take(number);
    }
    if let Ok(RegistrationEnd::Message { sender }) = end {
        give(notice, sender);
    }
    std::ptr::null_mut()
}

/// Nobody waits for this thread. The program's attributes may have said so already.
fn detach_self() {
    unsafe extern "C" {
        fn pthread_getattr_np(thread: libc::pthread_t, attributes: *mut pthread_attr_t) -> c_int;
        fn pthread_attr_getdetachstate(
            attributes: *const pthread_attr_t,
            state: *mut c_int,
        ) -> c_int;
    }
    // SAFETY: the attributes are filled in before they are read, and destroyed once.
    unsafe {
        let mut attributes: pthread_attr_t = std::mem::zeroed();
        let mut state = libc::PTHREAD_CREATE_JOINABLE;
        let this_thread = libc::pthread_self();
        if pthread_getattr_np(this_thread, &raw mut attributes) == 0 {
            pthread_attr_getdetachstate(&raw const attributes, &raw mut state);
            libc::pthread_attr_destroy(&raw mut attributes);
        }
        if state == libc::PTHREAD_CREATE_JOINABLE {
            libc::pthread_detach(this_thread);
        }
    }
}

/// Tells the process.
fn give(notice: Notice, sender: u32) {
    match notice {
        Notice::Nothing => {}
        Notice::Signal(due) => due.send(sender),
        Notice::Call { function: 0, .. } => {}
        Notice::Call { function, value } => {
            // SAFETY: the program has given this address as its function of a sigval.
            let function: extern "C" fn(sigval) = unsafe { std::mem::transmute(function) };
            function(sigval { sival_ptr: std::ptr::with_exposed_provenance_mut(value) });
        }
    }
}

//! Ends a test that hangs, and says in which call and after which scribble.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// CPU time that no call needs, whatever lies in the pool: tells an endless loop from slowness.
/// By the clock a loaded machine would be one.
const BOUND: Duration = Duration::from_secs(60);
/// Looks that a call may last if it uses no CPU time: one that sleeps is woken by none. No time:
/// while this process is stopped, nobody looks.
const LOOKS: u32 = 6000;
/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(100);

struct Call {
    /// The thread, and its CPU time when the call began.
    thread: i32,
    used: Duration,
    looks: u32,
    what: String,
}

impl Call {
    fn has_no_end(&mut self) -> bool {
        self.looks += 1;
        self.looks > LOOKS || cpu_time(self.thread).saturating_sub(self.used) > BOUND
    }
}

/// What a thread of this process has used so far.
fn cpu_time(thread: i32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"));
    let nanos = text.ok().and_then(|text| text.split(' ').next()?.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Watches the calls of a test, one place per thread.
pub struct Watchdog {
    calls: Arc<Vec<Mutex<Option<Call>>>>,
    over: Arc<AtomicBool>,
}

impl Watchdog {
    pub fn new(threads: usize) -> Self {
        let calls: Arc<Vec<Mutex<Option<Call>>>> =
            Arc::new((0..threads).map(|_| Mutex::new(None)).collect());
        let over = Arc::new(AtomicBool::new(false));
        let (watched, done) = (Arc::clone(&calls), Arc::clone(&over));
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(INTERVAL);
                for call in watched.iter() {
                    if let Some(call) = call.lock().unwrap().as_mut()
                        && call.has_no_end()
                    {
                        // Past what the test runner keeps back and loses.
                        let text = format!("this call has no end: {}\n", call.what);
                        let _ = std::io::stderr().write_all(text.as_bytes());
                        std::process::abort();
                    }
                }
            }
        });
        Self { calls, over }
    }

    /// Runs one call under watch.
    pub fn call<R>(
        &self,
        thread: usize,
        what: impl FnOnce() -> String,
        run: impl FnOnce() -> R,
    ) -> R {
        let task = rustix::thread::gettid().as_raw_nonzero().get();
        let call = Call { thread: task, used: cpu_time_here(), looks: 0, what: what() };
        let _watched = Watched::new(&self.calls[thread], call);
        run()
    }
}

/// A call under watch. One that panics has an end.
struct Watched<'a>(&'a Mutex<Option<Call>>);

impl<'a> Watched<'a> {
    fn new(place: &'a Mutex<Option<Call>>, call: Call) -> Self {
        *place.lock().unwrap() = Some(call);
        Self(place)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let call = self.0.lock().unwrap().take();
        if let Some(call) = call.filter(|_| std::thread::panicking()) {
            // Past what the test runner keeps back, and may lose.
            let _ = writeln!(std::io::stderr(), "this call has panicked: {}", call.what);
        }
    }
}

/// What the calling thread has used so far.
fn cpu_time_here() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

//! Ends a test that hangs, and says in which call and after which scribble.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than any call may take, whatever lies in the pool: tells a hang from slowness.
const BOUND: Duration = Duration::from_secs(60);

struct Call {
    begun: Instant,
    what: String,
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
                std::thread::sleep(Duration::from_millis(100));
                for call in watched.iter() {
                    let call = call.lock().unwrap();
                    if let Some(call) = call.as_ref()
                        && call.begun.elapsed() > BOUND
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
        *self.calls[thread].lock().unwrap() = Some(Call { begun: Instant::now(), what: what() });
        let result = run();
        *self.calls[thread].lock().unwrap() = None;
        result
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

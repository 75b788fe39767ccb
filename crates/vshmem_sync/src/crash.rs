//! Named crash points, compiled in for tests only.
//!
//! `VSHMEM_CRASH=<name>[:<nth>[:stop]]` kills (or stops) the process when it passes the point for
//! the nth time. A name is the change's name and the step's, as in `msgsnd/committed`.
//! `VSHMEM_CRASH_LIST` writes the name of every point that is passed to standard error.

/// Passes a crash point. Nothing happens unless the feature is on and the environment names it.
#[inline(always)]
pub fn crash_point(change: &str, step: &str) {
    #[cfg(feature = "crash-points")]
    pass(change, step);
    #[cfg(not(feature = "crash-points"))]
    let _ = (change, step);
}

/// Passes the crash point of a single cell that is changed outside any lock. It is named after
/// the place in the source that changes it, as in `claim undo.rs@177/before`.
#[cfg(feature = "crash-points")]
#[track_caller]
pub(crate) fn claim_point(step: &str) {
    let place = std::panic::Location::caller();
    let file = place.file().rsplit('/').next().unwrap_or_default();
    pass(&format!("claim {file}@{}", place.line()), step);
}

/// Nothing, without the feature.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub(crate) fn claim_point(_: &str) {}

#[cfg(feature = "crash-points")]
fn pass(change: &str, step: &str) {
    use std::sync::OnceLock;
    use vshmem_mem::unmodelled::{AtomicU32, Ordering};

    struct Order {
        name: String,
        left: AtomicU32,
        stop: bool,
    }
    static ORDER: OnceLock<Option<Order>> = OnceLock::new();
    let order = ORDER.get_or_init(|| {
        let text = std::env::var("VSHMEM_CRASH").ok()?;
        let mut parts = text.split(':');
        let name = parts.next()?.to_owned();
        let nth = parts.next().and_then(|n| n.parse().ok()).unwrap_or(1);
        let stop = parts.next() == Some("stop");
        Some(Order { name, left: AtomicU32::new(nth), stop })
    });
    let Some(order) = order else {
        if std::env::var_os("VSHMEM_CRASH_LIST").is_some() {
            eprintln!("crash point {change}/{step}");
        }
        return;
    };
    let matches = order.name.strip_prefix(change).and_then(|rest| rest.strip_prefix('/'));
    if matches == Some(step) && order.left.fetch_sub(1, Ordering::Relaxed) == 1 {
        if order.stop {
            vshmem_mem::stop_here();
        } else {
            let (me, kill) = (rustix::process::getpid(), rustix::process::Signal::KILL);
            let _ = rustix::process::kill_process(me, kill);
        }
    }
}

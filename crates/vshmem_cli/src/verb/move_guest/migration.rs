//! A guest's memory goes to another QEMU.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::qmp::Qmp;

/// How often QEMU is asked how far it is.
const AGAIN: Duration = Duration::from_millis(100);
/// How long it may take to break off.
const BREAKING_OFF: Duration = Duration::from_secs(60);

/// Sends it, and says what that took. One that is on its way already, by a command that was broken
/// off, is waited for. A guest that has not moved goes on here.
pub fn migrate(qmp: &mut Qmp, to: &str, limit: Duration) -> Result<String, String> {
    if !is_under_way(&qmp.ask("query-migrate")?) {
        qmp.ask_with("migrate", &json!({ "uri": to }))?;
    }
    let mut end = Instant::now() + limit;
    let mut is_broken_off = false;
    loop {
        let state = qmp.ask("query-migrate")?;
        let said = |name: &str| state.get(name).and_then(Value::as_str).unwrap_or_default();
        match said("status") {
            "completed" => return Ok(figures(&state)),
            "failed" => {
                let why = said("error-desc");
                return Err(if why.is_empty() { unsaid(qmp) } else { why.to_owned() });
            }
            "cancelled" => return Err(format!("it was not done within {} s", limit.as_secs())),
            status if Instant::now() < end => tracing::debug!(status, "migrates"),
            status if is_broken_off => return Err(format!("it cannot be broken off ({status})")),
            _ => {
                qmp.ask("migrate_cancel")?;
                is_broken_off = true;
                end = Instant::now() + BREAKING_OFF;
            }
        }
        std::thread::sleep(AGAIN);
    }
}

/// Whether a guest is being sent. Without a status none ever was.
fn is_under_way(state: &Value) -> bool {
    let status = state.get("status").and_then(Value::as_str).unwrap_or("none");
    !["none", "completed", "failed", "cancelled"].contains(&status)
}

/// QEMU 7 tells some reasons to its standard error alone.
fn unsaid(qmp: &mut Qmp) -> String {
    let blocked = qmp.ask("query-migrate").ok();
    let reasons = blocked.as_ref().and_then(|state| state.get("blocked-reasons"));
    reasons.map_or("the standard error of both QEMUs says why".into(), ToString::to_string)
}

fn figures(state: &Value) -> String {
    let number = |of: &Value, name: &str| of.get(name).and_then(Value::as_u64).unwrap_or_default();
    let bytes = number(state.get("ram").unwrap_or(&Value::Null), "transferred");
    format!(
        "{} MiB in {} ms, of which it stood still for {} ms",
        bytes >> 20,
        number(state, "total-time"),
        number(state, "downtime")
    )
}

//! listen [COUNT]: sleeps until it is notified, and counts until it was told the last.

extern crate iceoryx2_bb_loggers;

mod reading;

use std::process::ExitCode;

use reading::count;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let node = reading::node()?;
    let event = node.service_builder(&"vshmem/events".try_into()?).event().open_or_create()?;
    let listener = event.listener_builder().create()?;
    let (mut heard, mut ended, mut wakes) = (0, false, 0u64);
    while !ended {
        listener.blocking_wait(|activation| match activation.id.as_value() {
            1 => heard += activation.count,
            _ => ended = true,
        })?;
        wakes += 1;
    }
    println!("listen: {heard} notifications in {wakes} wake-ups");
    Ok(ExitCode::from(u8::from(heard != count())))
}

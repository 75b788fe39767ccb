//! notify [COUNT]: tells a listener so many times, and then that it was the last.

extern crate iceoryx2_bb_loggers;

mod reading;

use std::time::Duration;

use iceoryx2::prelude::*;
use reading::count;
use vshmem_iceoryx2::Service;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    set_log_level_from_env_or(LogLevel::Error);
    let node = NodeBuilder::new().create::<Service>()?;
    let event = node.service_builder(&"vshmem/events".try_into()?).event().open_or_create()?;
    while event.dynamic_config().number_of_listeners() == 0 {
        node.wait(Duration::from_millis(1))?;
    }
    let notifier = event.notifier_builder().create()?;
    for _ in 0..count() {
        notifier.notify_with_custom_event_id(EventId::new(1))?;
    }
    notifier.notify_with_custom_event_id(EventId::new(2))?;
    println!("notify: {} notifications", count());
    Ok(())
}

//! notify [COUNT]: tells a listener so many times, and then that it was the last.

extern crate iceoryx2_bb_loggers;

mod reading;

use iceoryx2::prelude::*;
use reading::{count, pause};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = reading::node()?;
    let event = node.service_builder(&"vshmem/events".try_into()?).event().open_or_create()?;
    while event.dynamic_config().number_of_listeners() == 0 {
        pause();
    }
    let notifier = event.notifier_builder().create()?;
    for _ in 0..count() {
        notifier.notify_with_custom_event_id(EventId::new(1))?;
    }
    notifier.notify_with_custom_event_id(EventId::new(2))?;
    println!("notify: {} notifications", count());
    Ok(())
}

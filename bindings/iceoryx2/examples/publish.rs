//! publish [COUNT]: waits for a subscriber and sends it so many readings; none is lost.

extern crate iceoryx2_bb_loggers;

mod reading;

use std::time::Duration;

use iceoryx2::prelude::*;
use reading::{Reading, count};
use vshmem_iceoryx2::Service;

const LOOK_AGAIN: Duration = Duration::from_millis(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    set_log_level_from_env_or(LogLevel::Error);
    let node = NodeBuilder::new().create::<Service>()?;
    let service = node
        .service_builder(&"vshmem/readings".try_into()?)
        .publish_subscribe::<Reading>()
        .enable_safe_overflow(false)
        .subscriber_max_buffer_size(16)
        .open_or_create()?;
    let strategy = BackpressureStrategy::RetryUntilDelivered;
    let publisher = service.publisher_builder().backpressure_strategy(strategy).create()?;
    let subscribers = || service.dynamic_config().number_of_subscribers();
    while subscribers() == 0 {
        node.wait(LOOK_AGAIN)?;
    }
    for number in 0..count() {
        publisher.loan_uninit()?.write_payload(Reading::new(number)).send()?;
    }
    // What was not taken yet goes with its publisher.
    while subscribers() > 0 {
        node.wait(LOOK_AGAIN)?;
    }
    println!("publish: {} readings sent", count());
    Ok(())
}

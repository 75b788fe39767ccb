//! publish [COUNT]: waits for a subscriber and sends it so many readings; none is lost.

extern crate iceoryx2_bb_loggers;

mod reading;

use iceoryx2::prelude::*;
use reading::{Reading, count, pause};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = reading::node()?;
    let service = node
        .service_builder(&"vshmem/readings".try_into()?)
        .publish_subscribe::<Reading>()
        .enable_safe_overflow(false)
        .subscriber_max_buffer_size(16)
        .open_or_create()?;
    let strategy = BackpressureStrategy::RetryUntilDelivered;
    let publisher = service.publisher_builder().backpressure_strategy(strategy).create()?;
    let event = node.service_builder(&"vshmem/readings".try_into()?).event().open_or_create()?;
    let listener = event.listener_builder().create()?;
    let subscribers = || service.dynamic_config().number_of_subscribers();
    while subscribers() == 0 {
        pause();
    }
    for number in 0..count() {
        // iceoryx2 waits for those that are connected, and a subscriber is by its first reading.
        if number == 1 {
            listener.blocking_wait(|_| {})?;
        }
        publisher.loan_uninit()?.write_payload(Reading::new(number)).send()?;
    }
    // What was not taken yet goes with its publisher.
    while subscribers() > 0 {
        pause();
    }
    println!("publish: {} readings sent", count());
    Ok(())
}

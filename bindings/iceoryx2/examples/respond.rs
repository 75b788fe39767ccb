//! respond [COUNT]: answers so many requests for the reading of a number.

extern crate iceoryx2_bb_loggers;

mod reading;

use std::time::Duration;

use iceoryx2::prelude::*;
use reading::{Reading, count};
use vshmem_iceoryx2::Service;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    set_log_level_from_env_or(LogLevel::Error);
    let node = NodeBuilder::new().create::<Service>()?;
    let service = node
        .service_builder(&"vshmem/questions".try_into()?)
        .request_response::<u64, Reading>()
        .open_or_create()?;
    let server = service.server_builder().create()?;
    let mut answered = 0;
    while answered < count() {
        match server.receive()? {
            Some(request) => {
                request.loan_uninit()?.write_payload(Reading::new(*request)).send()?;
                answered += 1;
            }
            None => std::thread::yield_now(),
        }
    }
    // The last answer goes with its server.
    while service.dynamic_config().number_of_clients() > 0 {
        node.wait(Duration::from_millis(1))?;
    }
    println!("respond: {answered} requests answered");
    Ok(())
}

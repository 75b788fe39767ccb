//! respond [COUNT]: answers so many requests for the reading of a number.

extern crate iceoryx2_bb_loggers;

mod reading;

use iceoryx2::prelude::*;
use reading::{Reading, count, pause};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = reading::node()?;
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
        pause();
    }
    println!("respond: {answered} requests answered");
    Ok(())
}

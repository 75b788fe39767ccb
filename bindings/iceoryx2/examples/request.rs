//! request [COUNT]: asks so many times for the reading of a number, and looks at each byte of it.

extern crate iceoryx2_bb_loggers;

mod reading;

use std::process::ExitCode;

use iceoryx2::prelude::*;
use reading::{Reading, count, pause};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let node = reading::node()?;
    let service = node
        .service_builder(&"vshmem/questions".try_into()?)
        .request_response::<u64, Reading>()
        .open_or_create()?;
    let client = service.client_builder().create()?;
    while service.dynamic_config().number_of_servers() == 0 {
        pause();
    }
    let mut wrong = 0;
    for number in 0..count() {
        let pending = client.send_copy(number)?;
        let response = loop {
            match pending.receive()? {
                Some(response) => break response,
                None => std::thread::yield_now(),
            }
        };
        wrong += u64::from(response.number != number || !response.is_whole());
    }
    println!("request: {} answers, {wrong} wrong", count());
    Ok(ExitCode::from(u8::from(wrong > 0)))
}

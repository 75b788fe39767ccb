//! subscribe [COUNT]: takes so many readings and looks at each byte of them.

extern crate iceoryx2_bb_loggers;

mod reading;

use std::process::ExitCode;

use reading::{Reading, count};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let node = reading::node()?;
    let service = node
        .service_builder(&"vshmem/readings".try_into()?)
        .publish_subscribe::<Reading>()
        .enable_safe_overflow(false)
        .subscriber_max_buffer_size(16)
        .open_or_create()?;
    let subscriber = service.subscriber_builder().create()?;
    let event = node.service_builder(&"vshmem/readings".try_into()?).event().open_or_create()?;
    let (mut taken, mut wrong) = (0, 0);
    while taken < count() {
        match subscriber.receive()? {
            Some(sample) => {
                wrong += u64::from(sample.number != taken || !sample.is_whole());
                if taken == 0 {
                    event.notifier_builder().create()?.notify()?;
                }
                taken += 1;
            }
            None => std::thread::yield_now(),
        }
    }
    println!("subscribe: {taken} readings taken, {wrong} wrong");
    Ok(ExitCode::from(u8::from(wrong > 0)))
}

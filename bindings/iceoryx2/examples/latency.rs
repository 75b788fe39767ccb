//! latency echo [ipc] | latency ask [ipc]: the time from publishing 8 bytes to receiving them, half
//! a round trip; both sides look without sleeping. `ipc`: with iceoryx2's own variant.

extern crate iceoryx2_bb_loggers;

use std::time::{Duration, Instant};

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;

type Ended = Result<(), Box<dyn std::error::Error>>;

/// Round trips that are timed together: a look at the clock costs as much as one of them.
const AT_ONCE: u32 = 1000;
const TIMES: usize = 200;

/// The last question.
const LAST: u64 = u64::MAX;

fn next<S: Service>(from: &Subscriber<S, u64, ()>) -> Result<u64, Box<dyn std::error::Error>> {
    loop {
        match from.receive()? {
            Some(sample) => return Ok(*sample),
            None => std::hint::spin_loop(),
        }
    }
}

fn echo<S: Service>(from: &Subscriber<S, u64, ()>, to: &Publisher<S, u64, ()>) -> Ended {
    loop {
        let number = next(from)?;
        to.send_copy(number)?;
        if number == LAST {
            return Ok(());
        }
    }
}

fn ask<S: Service>(from: &Subscriber<S, u64, ()>, to: &Publisher<S, u64, ()>) -> Ended {
    // Until the other side is there and both are connected.
    while to.send_copy(0)? == 0 || !from.has_samples()? {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(100));
    while from.receive()?.is_some() {}
    let mut nanos = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let begun = Instant::now();
        for number in 1..=u64::from(AT_ONCE) {
            to.send_copy(number)?;
            assert!(next(from)? == number, "an answer is not to the last question");
        }
        nanos.push((begun.elapsed() / (2 * AT_ONCE)).as_nanos());
    }
    to.send_copy(LAST)?;
    next(from)?;
    nanos.sort_unstable();
    let (fastest, median) = (nanos[0], nanos[TIMES / 2]);
    println!("latency: {median} ns (median), {fastest} ns (fastest of {TIMES} times {AT_ONCE})");
    Ok(())
}

fn side<S: Service>(asks: bool) -> Ended {
    let node =
        NodeBuilder::new().signal_handling_mode(SignalHandlingMode::Disabled).create::<S>()?;
    let open = |name: &str| -> Result<_, Box<dyn std::error::Error>> {
        let builder = node.service_builder(&name.try_into()?);
        Ok(builder.publish_subscribe::<u64>().open_or_create()?)
    };
    let (questions, answers) = (open("vshmem/pings")?, open("vshmem/pongs")?);
    let (from, to) = if asks { (&answers, &questions) } else { (&questions, &answers) };
    let from = from.subscriber_builder().create()?;
    let to = to.publisher_builder().create()?;
    if asks { ask(&from, &to) } else { echo(&from, &to) }
}

fn main() -> Ended {
    set_log_level_from_env_or(LogLevel::Error);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let asks = match words.first().map(String::as_str) {
        Some("ask") => true,
        Some("echo") => false,
        _ => return Err("usage: latency ask|echo [ipc]".into()),
    };
    match words.get(1).map(String::as_str) {
        Some("ipc") => side::<ipc::Service>(asks),
        _ => side::<vshmem_iceoryx2::Service>(asks),
    }
}

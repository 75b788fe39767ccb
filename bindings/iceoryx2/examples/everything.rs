//! everything [ROUNDS [ipc]]: makes a node with ports of all kinds, uses them and drops them, over
//! and over; without ROUNDS until it is killed. With 0 it only removes what dead nodes have left.
//! `ipc`: with iceoryx2's own variant, to compare.

extern crate iceoryx2_bb_loggers;

mod reading;

use iceoryx2::prelude::*;
use reading::Reading;

type Ended = Result<(), Box<dyn std::error::Error>>;

/// More ports than there are processes: those of dead nodes count until somebody removes them.
const MOST: usize = 24;

fn readings<S: Service>(node: &Node<S>, round: u64) -> Ended {
    let service = node
        .service_builder(&"vshmem/all-readings".try_into()?)
        .publish_subscribe::<Reading>()
        .max_publishers(MOST)
        .max_subscribers(MOST)
        .max_nodes(MOST)
        .open_or_create()?;
    let subscriber = service.subscriber_builder().create()?;
    let publisher = service.publisher_builder().create()?;
    publisher.loan_uninit()?.write_payload(Reading::new(round)).send()?;
    while let Some(sample) = subscriber.receive()? {
        assert!(sample.is_whole(), "a reading is not what was sent");
    }
    Ok(())
}

fn events<S: Service>(node: &Node<S>) -> Ended {
    let event = node
        .service_builder(&"vshmem/all-events".try_into()?)
        .event()
        .max_notifiers(MOST)
        .max_listeners(MOST)
        .max_nodes(MOST)
        .open_or_create()?;
    let listener = event.listener_builder().create()?;
    event.notifier_builder().create()?.notify()?;
    let mut heard = 0;
    listener.blocking_wait(|activation| heard += activation.count)?;
    assert!(heard > 0, "a notification was lost");
    Ok(())
}

fn questions<S: Service>(node: &Node<S>, round: u64) -> Ended {
    let service = node
        .service_builder(&"vshmem/all-questions".try_into()?)
        .request_response::<u64, Reading>()
        .max_clients(MOST)
        .max_servers(MOST)
        .max_nodes(MOST)
        .open_or_create()?;
    let server = service.server_builder().create()?;
    let client = service.client_builder().create()?;
    let pending = client.send_copy(round)?;
    while let Some(request) = server.receive()? {
        request.loan_uninit()?.write_payload(Reading::new(*request)).send()?;
    }
    while let Some(response) = pending.receive()? {
        assert!(response.number == round && response.is_whole(), "an answer is another one's");
    }
    Ok(())
}

fn rounds<S: Service>(rounds: u64) -> Ended {
    if rounds == 0 {
        let node = NodeBuilder::new().create::<S>()?;
        println!("everything: {:?}", node.try_cleanup_dead_nodes());
    }
    for round in 0..rounds {
        let node = NodeBuilder::new().create::<S>()?;
        // A service that another process makes or removes at this moment may refuse to be opened.
        for ended in [readings(&node, round), events(&node), questions(&node, round)] {
            if let Err(error) = ended {
                println!("everything: round {round}: {error}");
            }
        }
    }
    Ok(())
}

fn main() -> Ended {
    set_log_level_from_env_or(LogLevel::Error);
    let count = std::env::args().nth(1).map(|word| word.parse()).transpose()?;
    let count = count.unwrap_or(u64::MAX);
    match std::env::args().nth(2).as_deref() {
        Some("ipc") => rounds::<ipc::Service>(count),
        _ => rounds::<vshmem_iceoryx2::Service>(count),
    }
}

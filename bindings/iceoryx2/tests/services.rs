//! iceoryx2's conformance tests of services, nodes and ports with this crate's variants.
//! VSHMEM_POOL names the pool that they take place in.

extern crate alloc;
extern crate iceoryx2_bb_loggers;

use iceoryx2_bb_testing::instantiate_conformance_tests_with_module as suite;
use iceoryx2_conformance_tests::service::service::{
    BlackboardTests, EventTests, PubSubTests, RequestResponseTests,
};
use vshmem_iceoryx2::unique_id::UniquePoolId;

suite!(unique_ids, iceoryx2_conformance_tests::unique_id_generator_trait, UniquePoolId);

/// All suites for one variant.
macro_rules! suites {
    ($variant:ident) => {
        use super::*;
        use vshmem_iceoryx2::$variant;

        suite!(nodes, iceoryx2_conformance_tests::node, $variant);
        suite!(deaths, iceoryx2_conformance_tests::node_death, $variant);
        suite!(
            services_publish_subscribe,
            iceoryx2_conformance_tests::service,
            $variant,
            PubSubTests<$variant>
        );
        suite!(services_event, iceoryx2_conformance_tests::service, $variant, EventTests<$variant>);
        suite!(
            services_request_response,
            iceoryx2_conformance_tests::service,
            $variant,
            RequestResponseTests<$variant>
        );
        suite!(
            services_blackboard,
            iceoryx2_conformance_tests::service,
            $variant,
            BlackboardTests<$variant>
        );
        suite!(publish_subscribe, iceoryx2_conformance_tests::service_publish_subscribe, $variant);
        suite!(
            publish_subscribe_flatbuffer,
            iceoryx2_conformance_tests::service_publish_subscribe_flatbuffer,
            $variant
        );
        suite!(event, iceoryx2_conformance_tests::service_event, $variant);
        suite!(request_response, iceoryx2_conformance_tests::service_request_response, $variant);
        suite!(
            request_response_builder,
            iceoryx2_conformance_tests::service_request_response_builder,
            $variant
        );
        suite!(
            request_response_flatbuffer,
            iceoryx2_conformance_tests::service_request_response_flatbuffer,
            $variant
        );
        suite!(blackboard, iceoryx2_conformance_tests::service_blackboard, $variant);
        suite!(publishers, iceoryx2_conformance_tests::publisher, $variant);
        suite!(subscribers, iceoryx2_conformance_tests::subscriber, $variant);
        suite!(samples, iceoryx2_conformance_tests::sample, $variant);
        suite!(samples_mut, iceoryx2_conformance_tests::sample_mut, $variant);
        suite!(notifiers, iceoryx2_conformance_tests::notifier, $variant);
        suite!(listeners, iceoryx2_conformance_tests::listener, $variant);
        suite!(waitsets, iceoryx2_conformance_tests::waitset, $variant);
        suite!(clients, iceoryx2_conformance_tests::client, $variant);
        suite!(servers, iceoryx2_conformance_tests::server, $variant);
        suite!(active_requests, iceoryx2_conformance_tests::active_request, $variant);
        suite!(pending_responses, iceoryx2_conformance_tests::pending_response, $variant);
        suite!(writers, iceoryx2_conformance_tests::writer, $variant);
        suite!(readers, iceoryx2_conformance_tests::reader, $variant);
    };
}

mod single_threaded {
    suites!(Service);
}

mod threadsafe {
    suites!(ThreadsafeService);
}

#[allow(missing_docs)] // the macro makes a public `main`
mod harness {
    iceoryx2_bb_testing::test_harness!();
}

fn main() {
    harness::main();
}

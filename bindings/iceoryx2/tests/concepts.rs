//! iceoryx2's conformance tests of the concepts that this crate implements. VSHMEM_POOL names the
//! pool that they take place in.

extern crate iceoryx2_bb_loggers;

use iceoryx2_bb_lock_free::mpmc::{
    bit_set::RelocatableBitSet, counting_bit_set::RelocatableCountingBitSet,
};
use iceoryx2_bb_testing::instantiate_conformance_tests_with_module as suite;
use iceoryx2_cal::shm_allocator::pool_allocator::PoolAllocator;
use iceoryx2_cal_conformance_tests::dynamic_storage_trait::TestData;
use iceoryx2_cal_conformance_tests::named_concept_trait::{
    DynamicStorageTest, EventTest, MonitoringTest, ResizableSharedMemoryTest, SharedMemoryTest,
    StaticStorageTest, ZeroCopyConnectionTest,
};
use vshmem_iceoryx2::dynamic_storage::Storage;
use vshmem_iceoryx2::event::PoolEvent;
use vshmem_iceoryx2::monitoring::ClientMonitoring;
use vshmem_iceoryx2::reactor::PoolReactor;
use vshmem_iceoryx2::{Connection, ResizableSharedMemory, SharedMemory, static_storage};

type Memory = SharedMemory<PoolAllocator>;
type CountingEvent = PoolEvent<RelocatableCountingBitSet>;

suite!(
    dynamic_storage,
    iceoryx2_cal_conformance_tests::dynamic_storage_trait,
    Storage<TestData>,
    Storage<u64>
);
suite!(
    static_storage_,
    iceoryx2_cal_conformance_tests::static_storage_trait,
    static_storage::Storage
);
suite!(shared_memory, iceoryx2_cal_conformance_tests::shared_memory_trait, Memory);
suite!(
    resizable_shared_memory,
    iceoryx2_cal_conformance_tests::resizable_shared_memory_trait,
    Memory,
    ResizableSharedMemory
);
suite!(
    zero_copy_connection,
    iceoryx2_cal_conformance_tests::zero_copy_connection_trait,
    Connection
);
suite!(reactor, iceoryx2_cal_conformance_tests::reactor_trait, PoolReactor);
suite!(monitoring, iceoryx2_cal_conformance_tests::monitoring_trait, ClientMonitoring);
suite!(
    event_of_bits,
    iceoryx2_cal_conformance_tests::event_trait,
    RelocatableBitSet,
    PoolEvent<RelocatableBitSet>
);
suite!(
    event_of_counts,
    iceoryx2_cal_conformance_tests::event_trait,
    RelocatableCountingBitSet,
    CountingEvent
);

suite!(
    named_dynamic_storage,
    iceoryx2_cal_conformance_tests::named_concept_trait,
    DynamicStorageTest<Storage<u64>>
);
suite!(
    named_static_storage,
    iceoryx2_cal_conformance_tests::named_concept_trait,
    StaticStorageTest<static_storage::Storage>
);
suite!(
    named_shared_memory,
    iceoryx2_cal_conformance_tests::named_concept_trait,
    SharedMemoryTest<Memory>
);
suite!(
    named_resizable_shared_memory,
    iceoryx2_cal_conformance_tests::named_concept_trait,
    ResizableSharedMemoryTest<Memory, ResizableSharedMemory>
);
suite!(
    named_connection,
    iceoryx2_cal_conformance_tests::named_concept_trait,
    ZeroCopyConnectionTest<Connection>
);
suite!(named_event, iceoryx2_cal_conformance_tests::named_concept_trait, EventTest<CountingEvent>);
suite!(
    named_monitoring,
    iceoryx2_cal_conformance_tests::named_concept_trait,
    MonitoringTest<ClientMonitoring>
);

#[allow(missing_docs)] // the macro makes a public `main`
mod harness {
    iceoryx2_bb_testing::test_harness!();
}

fn main() {
    harness::main();
}

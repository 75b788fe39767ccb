//! The variants.

use std::fmt::Debug;

use iceoryx2_bb_elementary_traits::testing::abandonable::Abandonable;
use iceoryx2_bb_elementary_traits::zero_copy_send::ZeroCopySend;
use iceoryx2_cal::arc_sync_policy::{mutex_protected, single_threaded};
use iceoryx2_cal::resizable_shared_memory::dynamic::DynamicMemory;
use iceoryx2_cal::shared_memory::common::details::{AllocatorDetails, Memory};
use iceoryx2_cal::shm_allocator::bump_allocator::BumpAllocator;
use iceoryx2_cal::shm_allocator::pool_allocator::PoolAllocator;
use iceoryx2_cal::zero_copy_connection::common::details::{
    Connection as ConnectionOver, SharedManagementData,
};
use iceoryx2_cal::{bag, hash, serialize};

use crate::dynamic_storage::Storage;
use crate::{event, monitoring, reactor, static_storage, unique_id};

/// iceoryx2's shared memory in the pool.
pub type SharedMemory<Allocator> = Memory<Allocator, Storage<AllocatorDetails<Allocator>>>;

/// The same, which grows by further objects.
pub type ResizableSharedMemory = DynamicMemory<PoolAllocator, SharedMemory<PoolAllocator>>;

/// A connection of a sender and a receiver in the pool.
pub type Connection = ConnectionOver<Storage<SharedManagementData>>;

macro_rules! variant {
    ($(#[$doc:meta])* $name:ident, $policy:ident::$type:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name {}

        impl iceoryx2::service::Service for $name {
            type StaticStorage = static_storage::Storage;
            type ConfigSerializer = serialize::recommended::Recommended;
            type PersistentDynamicStorage<T: Debug + Send + Sync + ZeroCopySend + 'static> =
                Storage<T>;
            type Bag = bag::recommended::Recommended;
            type DynamicStorage<T: Debug + Send + Sync + ZeroCopySend + 'static> = Storage<T>;
            type ServiceNameHasher = hash::recommended::Recommended;
            type SharedMemory = SharedMemory<PoolAllocator>;
            type ResizableSharedMemory = ResizableSharedMemory;
            type Connection = Connection;
            type Event = event::Event;
            type Monitoring = monitoring::ClientMonitoring;
            type Reactor = reactor::PoolReactor;
            type ArcThreadSafetyPolicy<T: Send + Debug + Abandonable> = $policy::$type<T>;
            type BlackboardMgmt<T: Send + Sync + Debug + ZeroCopySend + 'static> = Storage<T>;
            type BlackboardPayload = SharedMemory<BumpAllocator>;
            type UniqueId = unique_id::UniquePoolId;
        }

        impl iceoryx2::service::internal::ServiceInternal<Self> for $name {}
    };
}

variant! {
    /// Services among the processes of a pool, as `ipc::Service` among those of one kernel.
    Service, single_threaded::SingleThreaded
}

variant! {
    /// The same, whose ports may be shared by threads, as `ipc_threadsafe::Service`.
    ThreadsafeService, mutex_protected::MutexProtected
}

//! Ids of nodes, services and ports: iceoryx2's own are made of a process number and the time,
//! which two guests may have alike.

use std::sync::atomic::{AtomicU64, Ordering};

use iceoryx2::config::Config;
use iceoryx2::unique_id_generator::{
    Entity, UniqueId, UniqueIdGenerator, UniqueIdGeneratorGenerateError,
};

use crate::leftovers::remove_leftovers;
use crate::pool::this_client;

/// Bits of the unique half that count within a process; the others are those of its client number
/// that change first. So this half alone comes back after 2^20 ids of one process, or 2^24
/// processes in one slot of the pool; both halves together never.
const COUNT_BITS: u32 = 20;

/// Ids of the pool's client number and a count.
#[derive(Debug)]
pub struct UniquePoolId {}

impl UniqueIdGenerator for UniquePoolId {
    fn generate<Service: iceoryx2::service::Service>(
        entity: Entity,
        config: &Config,
    ) -> Result<UniqueId, UniqueIdGeneratorGenerateError> {
        if matches!(entity, Entity::Node(_)) {
            // The first step of a new node. If the pool cannot be searched, the node finds out.
            let _ = remove_leftovers(config);
        }
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let client = this_client().map_err(|_| UniqueIdGeneratorGenerateError::GenerationError)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let unique = client << COUNT_BITS | count & ((1 << COUNT_BITS) - 1);
        let rest = client >> (u64::BITS - COUNT_BITS) << (u64::BITS - COUNT_BITS) | count;
        // SAFETY: the unique half is unique, as told above.
        Ok(unsafe { UniqueId::from_raw_id(u128::from(unique) << 64 | u128::from(rest)) })
    }
}

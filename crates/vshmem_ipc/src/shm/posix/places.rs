//! Where the file behind an object's descriptors may be found open: one word for each of a few
//! domains, which nobody relies on.

use vshmem_mem::Ordering;
use vshmem_sync::Fault;
use vshmem_wire::{PLACES, Place, PlaceHint, ShmSlot, field};

use crate::context::Context;
use crate::error::Failure;
use crate::registry::table;
use crate::shm::posix::object;

/// What a look at the words of an object has found.
#[derive(Debug, Clone, Copy)]
pub struct SeenPlace {
    word: u64,
    /// The process, by its number in this domain, and the number of its descriptor. `None`: none is
    /// noted for this domain.
    pub open_in: Option<(u32, u32)>,
}

fn word_of(slot: Place<ShmSlot>, domain: u32) -> Place<u64> {
    field!(slot, ShmSlot, places).element(u64::from(domain) % PLACES as u64)
}

/// What is noted for this domain.
pub(crate) fn seen(context: &Context, id: i32) -> Result<SeenPlace, Failure> {
    let (map, slot) = (context.pool().map(), object::find(context, id)?.slot);
    let word = map.load(word_of(slot, context.domain()), Ordering::Acquire).map_err(Fault::from)?;
    let generation = table::generation(map, slot.header())?;
    let hint = PlaceHint::unpack(word).filter(|hint| {
        hint.domain == context.domain() && hint.generation == generation_bits(generation)
    });
    Ok(SeenPlace { word, open_in: hint.map(|hint| (hint.pid, hint.file)) })
}

const fn generation_bits(generation: u64) -> u64 {
    generation & ((1 << PlaceHint::GENERATION_BITS) - 1)
}

/// Notes a descriptor of this process instead of what was seen; false when another one was noted
/// meanwhile.
pub(crate) fn note(
    context: &Context,
    id: i32,
    seen: SeenPlace,
    file: u32,
) -> Result<bool, Failure> {
    let (map, slot) = (context.pool().map(), object::find(context, id)?.slot);
    let generation = generation_bits(table::generation(map, slot.header())?);
    let domain = context.domain();
    let hint = PlaceHint { domain, pid: context.process_ref().pid, file, generation };
    Ok(map.replace(word_of(slot, domain), seen.word, hint.pack()).map_err(Fault::from)?)
}

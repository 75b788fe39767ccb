//! Counts, and where the areas that follow from them lie.

use crate::{
    Area, KEY_BUCKETS, Layout, MAX_OBJECTS, MAX_SLABS, PAGE_BYTES, PAGES_PER_MARK, Place,
    SLAB_BYTES, UNIT_BYTES, extent_slots,
};

const OBJECTS: u64 = MAX_OBJECTS as u64;

/// One count of a pool: a row of [`Geometry::LIMITS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Its name, as in `--limit`.
    pub name: &'static str,
    /// Smallest possible.
    pub least: u64,
    /// Largest possible.
    pub most: u64,
    /// Whether `--limit` sets it.
    pub is_option: bool,
}

const LIMIT: bool = true;
const FIXED: bool = false;

/// Makes the structure, and all that goes over its fields one by one, of the one table.
macro_rules! geometry {
    ($(
        $(#[$doc:meta])*
        $name:ident: $type:ty = $least:expr, $most:expr, $default:expr, $option:expr;
    )*) => {
        /// Every count of a pool. The layout is a function of these numbers alone.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(C)]
        pub struct Geometry {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Geometry {
            /// Every count, in the order of the fields.
            pub const LIMITS: &'static [Limit] = &[
                $(Limit {
                    name: stringify!($name),
                    least: $least,
                    most: $most,
                    is_option: $option,
                },)*
            ];

            /// The counts in the order of [`Geometry::LIMITS`].
            #[must_use]
            pub fn values(&self) -> [u64; Self::LIMITS.len()] {
                [$(u64::from(self.$name),)*]
            }

            /// Sets a count by its name, to the largest number there is if it does not fit. False
            /// when there is none of that name.
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name {
                    $(stringify!($name) => {
                        self.$name = <$type>::try_from(value).unwrap_or(<$type>::MAX);
                    })*
                    _ => return false,
                }
                true
            }

            /// As it lies in a superblock.
            #[must_use]
            pub fn to_bytes(&self) -> [u8; size_of::<Self>()] {
                let mut bytes = [0; size_of::<Self>()];
                $({
                    let at = core::mem::offset_of!(Self, $name);
                    bytes[at..at + size_of::<$type>()].copy_from_slice(&self.$name.to_ne_bytes());
                })*
                bytes
            }

            /// From a superblock.
            #[must_use]
            pub fn from_bytes(bytes: &[u8; size_of::<Self>()]) -> Self {
                Self {
                    $($name: {
                        let at = core::mem::offset_of!(Self, $name);
                        let mut value = [0; size_of::<$type>()];
                        value.copy_from_slice(&bytes[at..at + size_of::<$type>()]);
                        <$type>::from_ne_bytes(value)
                    },)*
                }
            }

            /// What a pool of so many bytes gets by default.
            fn of_bytes(total_bytes: u64) -> Self {
                $(let $name: fn(u64) -> u64 = $default;)*
                Self { $($name: $name(total_bytes) as $type,)* }
            }
        }
    };
}

// The one table of limits: smallest, largest, default by the pool's bytes (Linux's where they fit),
// and whether `--limit` sets it. A new one is a line here, with its area in `layout` if it has one.
geometry! {
    /// Segments at most (SHMMNI).
    shmmni: u32 = 1, OBJECTS, |bytes| scaled(bytes, 256 << 10, 64, 4096), LIMIT;
    /// Semaphore sets at most (SEMMNI).
    semmni: u32 = 1, OBJECTS, |bytes| scaled(bytes, 64 << 10, 64, OBJECTS), LIMIT;
    /// Message queues at most (MSGMNI).
    msgmni: u32 = 1, OBJECTS, |bytes| scaled(bytes, 64 << 10, 64, OBJECTS), LIMIT;
    /// Member domains at most, dead ones that still hold something included.
    domains: u32 = 1, 127, |_| 64, LIMIT;
    /// Client processes at most.
    clients: u32 = 1, (1 << 20) - 64, |bytes| scaled(bytes, 256 << 10, 64, 4096), LIMIT;
    /// Threads at work in the pool at once at most.
    threads: u32 = 2, 1 << 20, |bytes| scaled(bytes, 512 << 10, 128, 4096), LIMIT;
    /// (client, segment) pairs at most.
    attaches: u32 = 1, 1 << 24, |bytes| scaled(bytes, 128 << 10, 256, 1 << 16), LIMIT;
    /// (client, semaphore set) pairs with SEM_UNDO at most.
    undos: u32 = 1, 1 << 24, |bytes| scaled(bytes, 128 << 10, 256, 1 << 16), LIMIT;
    /// Wait queues by address, for process-shared locks.
    futexes: u32 = 1, 1 << 16, |bytes| scaled(bytes, 1 << 20, 64, 256), LIMIT;
    /// Claims and wants of file locks on POSIX objects.
    locks: u32 = 4, 1 << 16, |bytes| scaled(bytes, 64 << 10, 64, 4096), LIMIT;
    /// Slabs of the heap: room for messages, semaphore values, adjustments.
    slabs: u32 = 1, MAX_SLABS, slabs_for, LIMIT;
    /// Semaphores per set at most (SEMMSL).
    semmsl: u32 = 1, 32000, |_| 32000, LIMIT;
    /// Semaphores in all sets at most (SEMMNS).
    semmns: u32 = 1, 1 << 30, |_| 1_024_000_000, LIMIT;
    /// Operations per semop call at most (SEMOPM).
    semopm: u32 = 1, 1000, |_| 500, LIMIT;
    /// Highest semaphore value (SEMVMX).
    semvmx: u32 = 1, 32767, |_| 32767, LIMIT;
    /// Bytes of a message at most (MSGMAX).
    msgmax: u32 = 1, 16368, |_| 8192, LIMIT;
    /// Bytes of a new queue at most (MSGMNB).
    msgmnb: u32 = 1, 1 << 30, |_| 16384, LIMIT;
    /// Bytes of the smallest segment (SHMMIN).
    shmmin: u32 = 1, 1, |_| 1, FIXED;
    /// Bytes of a segment at most (SHMMAX).
    shmmax: u64 = 1, u64::MAX, |_| u64::MAX - (1 << 24), LIMIT;
    /// Pages of all segments at most (SHMALL).
    shmall: u64 = 1, u64::MAX, |_| u64::MAX - (1 << 24), LIMIT;
    /// Pages for segments.
    pages: u64 = 1, u32::MAX as u64 - 1, |_| 1, FIXED;
}

fn scaled(bytes: u64, per: u64, least: u64, most: u64) -> u64 {
    (bytes / per).clamp(least, most)
}

/// Room for a default queue full of empty messages (16,384 units) and then some, unless that were a
/// quarter of a small pool.
fn slabs_for(bytes: u64) -> u64 {
    (bytes / 32).max((4 << 20).min(bytes / 4)).div_ceil(SLAB_BYTES).clamp(8, 4096)
}

/// Why a geometry cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeometryError {
    /// A count is zero or above what the format can express.
    Count {
        /// Its name, as in `--limit`.
        name: &'static str,
        /// What was asked.
        value: u64,
        /// Smallest possible.
        least: u64,
        /// Largest possible.
        most: u64,
    },
    /// The areas do not fit into an address.
    TooLarge,
}

impl core::fmt::Display for GeometryError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Count { name, value, least, most } => {
                let number = |value| match *name {
                    "size" => Number::Bytes(value),
                    _ => Number::Count(value),
                };
                let (value, least, most) = (number(*value), number(*least), number(*most));
                write!(f, "{name} is {value}, and must be from {least} to {most}")
            }
            Self::TooLarge => f.write_str("the areas add up to more than an address can express"),
        }
    }
}

/// A number as a message tells it.
enum Number {
    Count(u64),
    /// As `--size` takes it, in the largest unit that divides it.
    Bytes(u64),
}

impl core::fmt::Display for Number {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Bytes(bytes) => {
                let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
                let unit =
                    units.iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
                let (shift, name) = unit.copied().unwrap_or((0, ""));
                write!(f, "{}{name}", bytes >> shift)
            }
        }
    }
}

/// Finds room for one area after the other.
struct Room {
    next: u64,
}

impl Room {
    fn area<T>(&mut self, count: u64) -> Result<Area<T>, GeometryError> {
        self.aligned_area(count, PAGE_BYTES)
    }

    fn aligned_area<T>(&mut self, count: u64, align: u64) -> Result<Area<T>, GeometryError> {
        let offset = self.next.checked_next_multiple_of(align).ok_or(GeometryError::TooLarge)?;
        self.next = (size_of::<T>() as u64)
            .checked_mul(count)
            .and_then(|bytes| bytes.checked_add(offset))
            .and_then(|end| end.checked_next_multiple_of(PAGE_BYTES))
            .ok_or(GeometryError::TooLarge)?;
        Ok(Area::new(offset, count))
    }
}

impl Geometry {
    /// Checks every count against what the format can express.
    ///
    /// # Errors
    /// The first count that is out of range.
    pub fn validate(&self) -> Result<(), GeometryError> {
        for (limit, value) in Self::LIMITS.iter().zip(self.values()) {
            let Limit { name, least, most, .. } = *limit;
            if value < least || value > most {
                return Err(GeometryError::Count { name, value, least, most });
            }
        }
        Ok(())
    }

    /// Where the areas lie. Each begins on a page.
    ///
    /// # Errors
    /// When a count is out of range or the sum does not fit.
    pub fn layout(&self) -> Result<Layout, GeometryError> {
        self.validate()?;
        let units = u64::from(self.slabs) * (SLAB_BYTES / UNIT_BYTES);
        let keys_of = |objects: u32| KEY_BUCKETS * u64::from(objects);
        // Segments begin on a large page where the pool is big enough to care.
        let data_align = if self.pages >= 4096 { 2 << 20 } else { PAGE_BYTES };
        let mut room = Room { next: 2 * PAGE_BYTES };
        // In the order in which they lie in the pool.
        let mut layout = Layout {
            registry: Place::at(PAGE_BYTES),
            domains: room.area(self.domains.into())?,
            clients: room.area(self.clients.into())?,
            threads: room.area(self.threads.into())?,
            shm: room.area(self.shmmni.into())?,
            sem: room.area(self.semmni.into())?,
            msg: room.area(self.msgmni.into())?,
            keys: [
                room.area(keys_of(self.shmmni))?,
                room.area(keys_of(self.semmni))?,
                room.area(keys_of(self.msgmni))?,
            ],
            attaches: room.area(self.attaches.into())?,
            undos: room.area(self.undos.into())?,
            futexes: room.area(self.futexes.into())?,
            locks: room.area(self.locks.into())?,
            slab_meta: room.area(self.slabs.into())?,
            unit_meta: room.area(units)?,
            extents: room.area(extent_slots(self.shmmni))?,
            dirty: room.area(self.pages.div_ceil(PAGES_PER_MARK.into()))?,
            heap: room.aligned_area(self.slabs.into(), SLAB_BYTES)?,
            data: room.aligned_area(self.pages, data_align)?,
            total_bytes: 0,
        };
        layout.total_bytes = layout.data.end();
        Ok(layout)
    }

    /// Geometry of a pool of at most `total_bytes`, with Linux's limits where they fit.
    ///
    /// # Errors
    /// When `total_bytes` is too small to hold a pool at all.
    pub fn for_size(total_bytes: u64) -> Result<Self, GeometryError> {
        let mut geometry = Self::of_bytes(total_bytes);
        geometry.fit_pages(total_bytes)?;
        Ok(geometry)
    }

    /// Sets `pages` to what is left of `total_bytes` after everything else.
    ///
    /// # Errors
    /// When nothing is left.
    pub fn fit_pages(&mut self, total_bytes: u64) -> Result<(), GeometryError> {
        let most = (total_bytes / PAGE_BYTES).min(u64::from(u32::MAX) - 1);
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            let fits = Self { pages: middle, ..*self }
                .layout()
                .is_ok_and(|layout| layout.total_bytes <= total_bytes);
            if fits { low = middle } else { high = middle - 1 }
        }
        self.pages = low;
        let least = Self { pages: 1, ..*self }.layout().map_or(0, |layout| layout.total_bytes);
        self.layout().map(|_| ()).map_err(|error| match error {
            GeometryError::Count { name: "pages", .. } => GeometryError::Count {
                name: "size",
                value: total_bytes,
                least: least.next_multiple_of(1 << 20).max(4 << 20),
                most: 1 << 44,
            },
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_table_is_all_that_a_limit_takes() {
        let mut geometry = Geometry::for_size(16 << 20).expect("a geometry");
        for (nth, limit) in Geometry::LIMITS.iter().enumerate() {
            assert!(geometry.set(limit.name, limit.least), "{}", limit.name);
            assert_eq!(geometry.values()[nth], limit.least, "{}", limit.name);
            assert_eq!(geometry.validate(), Ok(()), "{}", limit.name);
            if limit.least > 0 {
                geometry.set(limit.name, limit.least - 1);
                let refused = GeometryError::Count {
                    name: limit.name,
                    value: limit.least - 1,
                    least: limit.least,
                    most: limit.most,
                };
                assert_eq!(geometry.validate(), Err(refused));
            }
            geometry.set(limit.name, limit.least);
        }
        assert!(!geometry.set("bad", 1));
        assert_eq!(Geometry::from_bytes(&geometry.to_bytes()), geometry);
    }

    fn assert_inside<T>(area: Area<T>, layout: &Layout, limit: &str) {
        let end = (size_of::<T>() as u64).checked_mul(area.count);
        let end = end.and_then(|bytes| bytes.checked_add(area.offset()));
        assert_eq!(end, Some(area.end()), "{limit}");
        assert!(area.end() <= layout.total_bytes, "{limit}");
    }

    /// Counts come from a superblock that every member can write.
    #[test]
    fn whatever_the_counts_are_no_area_ends_beyond_an_address() {
        let sizes = [4 << 20, 1 << 30, 1 << 44, u64::MAX];
        for mut geometry in sizes.into_iter().filter_map(|bytes| Geometry::for_size(bytes).ok()) {
            // One count after the other at its largest, and those before it, too.
            for limit in Geometry::LIMITS {
                geometry.set(limit.name, limit.most);
                let Ok(layout) = geometry.layout() else { continue };
                let keys = layout.keys;
                for area in keys.into_iter().chain([layout.dirty]) {
                    assert_inside(area, &layout, limit.name);
                }
                assert_inside(layout.attaches, &layout, limit.name);
                assert_inside(layout.heap, &layout, limit.name);
                assert_inside(layout.data, &layout, limit.name);
            }
        }
    }
}

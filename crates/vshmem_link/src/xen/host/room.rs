//! How large a pool can be: arithmetic of grant tables, before anything is made.

/// References that Xen keeps for itself.
pub const RESERVED: u32 = 8;
/// Entries in a frame of a table of version 1.
pub const ENTRIES: u32 = 512;
const PAGE: u64 = 4096;

/// What a pool's grant table has to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantTableSize {
    /// Pages of the pool.
    pub pages: u32,
    /// Members at most, dom0 among them.
    pub slots: u32,
}

impl GrantTableSize {
    /// Slots that a pool gets when nothing else is said, where there is room for them.
    const USUAL: u32 = 8;
    /// Fewer members than these share nothing.
    const LEAST: u32 = 2;

    /// The room of a pool of so many pages, in a table of `most` frames.
    #[must_use]
    pub fn of(pages: u32, slots: Option<u32>, most: u32) -> Self {
        let fitting = (most.saturating_mul(ENTRIES).saturating_sub(RESERVED)) / pages.max(1);
        let slots = slots.unwrap_or(fitting.clamp(Self::LEAST, Self::USUAL));
        Self { pages, slots }
    }

    /// Frames that it takes.
    #[must_use]
    pub fn frames(self) -> u32 {
        let entries = u64::from(RESERVED) + u64::from(self.pages) * u64::from(self.slots);
        u32::try_from(entries.div_ceil(u64::from(ENTRIES))).unwrap_or(u32::MAX)
    }

    /// The first reference of a member.
    #[must_use]
    pub fn first(self, slot: u32) -> u32 {
        RESERVED.saturating_add(slot.saturating_mul(self.pages))
    }

    /// Whether it fits, and a sentence on what to do when it does not. `most`: frames that a table
    /// may have here.
    ///
    /// # Errors
    /// The sentence.
    pub fn fits(self, most: u32) -> Result<(), String> {
        let needed = self.frames();
        if needed <= most {
            return Ok(());
        }
        let entries = (u64::from(most) * u64::from(ENTRIES)).saturating_sub(u64::from(RESERVED));
        let members = entries / u64::from(self.pages.max(1));
        let largest = entries / u64::from(self.slots.max(1)) * PAGE;
        let fewer = if members >= 2 { format!("take --slots {members}, ") } else { String::new() };
        Err(format!(
            "{} for {} members are {} grants and need a grant table of {needed} frames; Xen allows {most} here. Either {fewer}take a --size of at most {}M, or start Xen with gnttab_max_frames={} on its command line",
            size(u64::from(self.pages) * PAGE),
            self.slots,
            u64::from(self.pages) * u64::from(self.slots),
            largest >> 20,
            needed.next_power_of_two()
        ))
    }
}

fn size(bytes: u64) -> String {
    format!("{}M", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_of_64_frames_holds_42_mib_for_three() {
        let room = |mib: u32, slots| GrantTableSize { pages: mib * 256, slots };
        assert_eq!(room(42, 3).fits(64), Ok(()));
        assert!(room(43, 3).fits(64).is_err());
        assert_eq!(room(16, 7).fits(64), Ok(()));
        assert_eq!(room(16, 3).first(0), 8);
        assert_eq!(room(16, 3).first(2), 8 + 2 * 4096);
    }

    #[test]
    fn slots_are_as_many_as_there_is_room_for() {
        assert_eq!(GrantTableSize::of(4096, None, 64).slots, 7);
        assert_eq!(GrantTableSize::of(4096, None, 1024).slots, 8);
        assert_eq!(GrantTableSize::of(4096, Some(3), 1024).slots, 3);
        assert!(GrantTableSize::of(32768, None, 64).fits(64).is_err());
    }

    #[test]
    fn a_refusal_names_the_option_that_helps() {
        let refusal = GrantTableSize { pages: 128 * 256, slots: 8 }.fits(64).unwrap_err();
        assert!(refusal.contains("gnttab_max_frames=1024"), "{refusal}");
        assert!(refusal.contains("--size of at most 15M"), "{refusal}");
        assert!(!refusal.contains("--slots"), "{refusal}");
        let refusal = GrantTableSize { pages: 32 * 256, slots: 8 }.fits(64).unwrap_err();
        assert!(refusal.contains("--slots 3"), "{refusal}");
        assert_eq!(GrantTableSize { pages: 128 * 256, slots: 8 }.fits(1024), Ok(()));
    }
}

//! A guest's configuration for xl, of Xen (xl.cfg(5)).

/// Each process maps the tables and what it attaches, and each page that is mapped takes an entry
/// of its domain's maptrack table: 512 to a frame. Room for 32 processes that have mapped all.
pub fn lines(pages: u32) -> String {
    const XENS_OWN: u32 = 1024;
    let frames = pages.saturating_mul(32).div_ceil(512);
    format!("max_maptrack_frames = {}\n", frames.max(XENS_OWN))
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn a_guest_of_xens_may_map_a_large_pool_many_times() {
        assert_eq!(lines(4096), "max_maptrack_frames = 1024\n");
        assert_eq!(lines(65536), "max_maptrack_frames = 4096\n");
    }
}

//! Everything that can be measured.

mod algebra;
mod draft;
mod dwarfs;
mod micro;
mod system;

use std::path::Path;

use super::case::Case;
pub use draft::Extent;

/// All cases of that extent; those of programs of other people for what `nas` has.
#[must_use]
pub fn catalogue(extent: Extent, nas: Option<&Path>) -> Vec<Case> {
    let mut cases = micro::cases(extent);
    cases.extend(dwarfs::cases(extent));
    cases.extend(algebra::cases(extent));
    cases.extend(system::cases(extent, nas));
    cases
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_of_one_case_each() {
        for extent in [Extent::Quick, Extent::Default, Extent::Paper] {
            let cases = catalogue(extent, None);
            let names: HashSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
            assert_eq!(names.len(), cases.len());
            assert!(cases.iter().all(|case| !case.figures.is_empty()));
        }
    }

    #[test]
    fn the_quick_one_is_a_part() {
        let lengths = [Extent::Quick, Extent::Default].map(|extent| catalogue(extent, None).len());
        assert!(lengths[0] * 2 < lengths[1], "{lengths:?}");
    }

    #[test]
    fn a_case_is_called_by_group_bench_or_name() {
        let cases = catalogue(Extent::Quick, None);
        let called = |word: &str| cases.iter().filter(|case| case.is_called(word)).count();
        assert!(called("micro") > called("sync") && called("sync") > 0);
        assert_eq!(called("sync-8.guests.vshmem"), 1);
        assert_eq!(called("nothing"), 0);
    }
}

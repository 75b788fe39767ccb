//! The calls of libvshmem stand in three lists, which have to agree: the header, the versions of
//! the shared library's symbols, and the list by which Debian's packages know them.

use std::collections::BTreeSet;

use vshmem_structure::root;

fn text(place: &str) -> String {
    std::fs::read_to_string(root().join(place)).unwrap_or_else(|error| panic!("{place}: {error}"))
}

/// Words of the library that are followed by this mark.
fn calls(text: &str, mark: char) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let ends = text.match_indices(mark).map(|(at, _)| &text[..at]);
    let words = ends.filter_map(|before| before.rsplit(|c| !is_part(c)).next());
    words.filter(|word| word.starts_with("vshmem_")).collect()
}

#[test]
fn each_call_of_the_header_is_exported_with_a_version_and_nothing_else_is() {
    let header = text("crates/vshmem_capi/include/vshmem.h");
    // Without comments, which name calls as well, and without types of calls.
    let code: String =
        header.split("/*").map(|part| part.split("*/").last().unwrap_or("")).collect();
    let code: String =
        code.split_inclusive(';').filter(|one| !one.trim_start().starts_with("typedef")).collect();
    let declared = calls(&code, '(');
    assert!(declared.len() > 50, "the header's calls are not found: {declared:?}");
    assert_eq!(calls(&text("packaging/libvshmem.map"), ';'), declared, "packaging/libvshmem.map");
    let debian = text("packaging/debian/libvshmem0.symbols");
    assert_eq!(calls(&debian, '@'), declared, "packaging/debian/libvshmem0.symbols");
}

/// A call keeps the version that it was released with.
#[test]
fn both_lists_give_a_call_the_same_version() {
    let map = text("packaging/libvshmem.map");
    let debian = text("packaging/debian/libvshmem0.symbols");
    let mut version = "";
    for line in map.lines().map(str::trim) {
        if let Some(name) = line.strip_suffix('{') {
            version = name.trim();
        } else if let Some(call) = line.strip_suffix(';').filter(|call| call.starts_with("vshmem_"))
        {
            assert!(debian.contains(&format!(" {call}@{version} ")), "{call} of {version}");
        }
    }
}

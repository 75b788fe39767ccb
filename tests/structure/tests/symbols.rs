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

/// The calls that C code declares or makes: those of comments and types are left out.
fn calls_of_code(text: &str) -> BTreeSet<String> {
    let code: String = text.split("/*").map(|part| part.split("*/").last().unwrap_or("")).collect();
    let code: String =
        code.split_inclusive(';').filter(|one| !one.trim_start().starts_with("typedef")).collect();
    calls(&code, '(').into_iter().map(str::to_owned).collect()
}

/// The groups of the header: the calls of each, and the programs that its page names.
fn groups(header: &str) -> Vec<(BTreeSet<String>, Vec<String>)> {
    let mark = "/* Examples: ";
    let mut groups = Vec::new();
    for part in header.split(mark).skip(1) {
        let (names, rest) = part.split_once(" */").expect("an end of the list of examples");
        let names = names.split(", ").map(str::to_owned).collect();
        groups.push((calls_of_code(rest), names));
    }
    groups
}

/// vshmem.h, and the one that it includes.
fn headers() -> String {
    ["vshmem.h", "vshmem_team.h"]
        .map(|name| text(&format!("crates/vshmem_capi/include/{name}")))
        .concat()
}

/// A new function needs an example, in a program that its man page names and that a test runs.
#[test]
fn each_call_of_the_header_has_an_example_that_its_page_names_and_a_test_runs() {
    let header = headers();
    let makefile = text("examples/Makefile");
    let built = makefile.lines().find_map(|line| line.strip_prefix("LIBRARY = ")).unwrap();
    let check = text("examples/library/check.sh");
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for (calls, programs) in groups(&header) {
        let mut made = BTreeSet::new();
        for program in &programs {
            made.extend(calls_of_code(&text(&format!("examples/library/{program}"))));
            let name = program.trim_end_matches(".c");
            if !built.split(' ').any(|one| one == name) {
                wrong.push(format!("{program} is not built by examples/Makefile"));
            }
            if !check.contains(&format!("\"$build/{name}\"")) {
                wrong.push(format!("{program} is not run by examples/library/check.sh"));
            }
        }
        let missing = calls.iter().filter(|call| !made.contains(*call));
        wrong.extend(missing.map(|call| format!("{call} has no example in {programs:?}")));
        seen.extend(calls);
    }
    let unseen = calls_of_code(&header).into_iter().filter(|call| !seen.contains(call));
    wrong.extend(unseen.map(|call| format!("the page of {call} names no example")));
    assert!(wrong.is_empty(), "vshmem.h:\n{}", wrong.join("\n"));
}

#[test]
fn each_call_of_the_header_is_exported_with_a_version_and_nothing_else_is() {
    let header = headers();
    let declared = calls_of_code(&header);
    let declared: BTreeSet<&str> = declared.iter().map(String::as_str).collect();
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

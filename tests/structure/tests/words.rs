//! Words that a stranger would have to guess: the glossary is short, and those that were replaced
//! by words of the field do not come back.

use vshmem_structure::{root, tracked};

/// Terms of our own that the glossary may have.
const TERMS: usize = 25;

/// What was once said, and what is said instead.
const REPLACED: &[(&str, &str)] = &[
    ("buried", "reaped"),
    ("buries", "reaps"),
    ("bury", "reap"),
    ("hostage", "held"),
    ("larder", "cache"),
    ("pledge", "prepared undo"),
    ("undertaker", "reaper"),
    ("vigil", "watch"),
    ("warden", "supervisor"),
    ("whoever", "who it is: the process, the user"),
];

/// This file, which has the list.
fn may_name_them(path: &str) -> bool {
    path == "tests/structure/tests/words.rs"
}

#[test]
fn the_glossary_is_short() {
    let text = std::fs::read_to_string(root().join("docs/glossary.md")).expect("it is there");
    let rows = text.lines().filter(|line| line.starts_with("| ")).count() - 1;
    assert!(rows > 0 && rows <= TERMS, "{rows} terms of our own, at most {TERMS}");
}

#[test]
fn replaced_words_do_not_come_back() {
    let mut found = Vec::new();
    for ending in [".rs", ".c", ".h", ".py", ".sh", ".md"] {
        for path in tracked(ending) {
            let name = path.display().to_string();
            if may_name_them(&name) {
                continue;
            }
            let bytes = std::fs::read(root().join(&path)).expect("a file of the tree is readable");
            for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
                let line = line.to_lowercase();
                let words = line.split(|one: char| !one.is_ascii_alphabetic());
                found.extend(
                    words
                        .filter_map(|word| REPLACED.iter().find(|(former, _)| *former == word))
                        .map(|(word, instead)| {
                            format!("{name}:{}: {word}; say {instead}", number + 1)
                        }),
                );
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

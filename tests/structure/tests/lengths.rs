//! How long files, functions and lines may be.

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use vshmem_structure::{functions, root, tracked};

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 60;
const COLUMNS: usize = 100;

fn lines_of(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(root().join(path)).expect("a source is readable");
    String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
}

#[test]
fn no_file_or_function_is_longer_than_its_limit() {
    let mut long = Vec::new();
    let mut judge = |what: String, lines: usize, limit: usize| {
        if lines > limit {
            long.push(format!("{what}: {lines} lines, at most {limit}"));
        }
    };
    for ending in [".rs", ".c", ".h"] {
        for path in &tracked(ending) {
            let lines = lines_of(path);
            judge(path.display().to_string(), lines.len(), FILE_LINES);
            if ending == ".rs" {
                let syntax = syn::parse_file(&lines.join("\n"))
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                for function in functions(&syntax) {
                    let what = format!("{}:{}", path.display(), function.name);
                    judge(what, function.lines, FUNCTION_LINES);
                }
            }
        }
    }
    assert!(long.is_empty(), "split these:\n{}", long.join("\n"));
}

/// Addresses and rows of tables are not broken.
fn may_be_wide(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches('/').trim_start_matches('!').trim_start();
    line.contains("://") || text.starts_with('|')
}

/// Lines of a Rust file on which some literal lies. Messages are found by searching for them, so
/// they are not broken. A comment that documents an item is a literal to the compiler, too.
fn literal_lines(text: &str) -> BTreeSet<usize> {
    let mut open: Vec<TokenStream> = text.parse().into_iter().collect();
    let mut found = BTreeSet::new();
    while let Some(stream) = open.pop() {
        for token in stream {
            match token {
                TokenTree::Group(group) => open.push(group.stream()),
                TokenTree::Literal(literal) if literal.to_string().contains('"') => {
                    found.extend(literal.span().start().line..=literal.span().end().line);
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn no_line_is_wider_than_its_limit() {
    let mut wide = Vec::new();
    for ending in [".rs", ".c", ".h"] {
        for path in tracked(ending) {
            let lines = lines_of(&path);
            let literals =
                if ending == ".rs" { literal_lines(&lines.join("\n")) } else { BTreeSet::new() };
            for (number, line) in lines.iter().enumerate() {
                let columns: usize = line.chars().map(|one| if one == '\t' { 8 } else { 1 }).sum();
                let is_comment = line.trim_start().starts_with("//");
                let exempt = may_be_wide(line)
                    || (!is_comment && literals.contains(&(number + 1)))
                    || (ending != ".rs" && line.contains('"'));
                if columns > COLUMNS && !exempt {
                    wide.push(format!("{}:{}: {columns}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(wide.is_empty(), "{} lines are wider than {COLUMNS}:\n{}", wide.len(), wide.join("\n"));
}

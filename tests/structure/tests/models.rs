//! The table of models in docs names every model there is, and no other.

use std::collections::BTreeSet;
use std::path::Path;

use vshmem_structure::{root, tracked};

/// The tests of the files that the model checker runs.
fn models() -> BTreeSet<String> {
    let is_of_models = |path: &&std::path::PathBuf| {
        let mut names = path.components().map(|name| name.as_os_str().to_string_lossy());
        let of_a_crate = names.next().is_some_and(|first| first == "crates");
        let mut rest = names.skip_while(|name| name != "tests").skip(1);
        of_a_crate && rest.next().is_some_and(|name| name == "loom" || name == "loom.rs")
    };
    tracked(".rs").iter().filter(is_of_models).flat_map(|path| tests_in(path)).collect()
}

fn tests_in(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(path)).expect("a file of the tree is readable");
    let file = syn::parse_file(&text).expect("it is Rust");
    file.items
        .iter()
        .filter_map(|item| match item {
            syn::Item::Fn(function) => Some(function),
            _ => None,
        })
        .filter(|function| function.attrs.iter().any(|attribute| attribute.path().is_ident("test")))
        .map(|function| function.sig.ident.to_string())
        .collect()
}

/// What the second column of the table under "Models" names.
fn table() -> BTreeSet<String> {
    let page = tracked("memory-model.md").into_iter().find(|path| path.starts_with("docs"));
    let page = page.expect("docs have a page memory-model.md");
    let text = std::fs::read_to_string(root().join(page)).expect("a page is readable");
    let (_, section) = text.split_once("\n## Models\n").expect("it has a section Models");
    section
        .lines()
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| line.strip_prefix('|')?.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_table_of_models_is_complete_and_true() {
    let (models, table) = (models(), table());
    assert!(models.len() > 30, "the models are not where they were: {models:?}");
    let missing: Vec<_> = models.difference(&table).collect();
    let unknown: Vec<_> = table.difference(&models).collect();
    assert!(missing.is_empty(), "not in the table of memory-model.md: {missing:?}");
    assert!(unknown.is_empty(), "in the table, but no model: {unknown:?}");
}

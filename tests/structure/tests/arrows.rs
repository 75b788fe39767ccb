//! Which crate may import which: the table under "Layers" in docs/internals/design.md, and nothing
//! else. And what a crate leaves to those beneath it.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use vshmem_structure::{crates, is_test_only, root};

/// `| crate | ... | may import |` rows of the design.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("docs/internals/design.md"))
        .expect("the design is there");
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `vshmem_")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let names = |cell: &str| -> Vec<String> {
            cell.split('`').filter(|word| word.starts_with("vshmem_")).map(str::to_owned).collect()
        };
        let (first, last) = (names(cells[0]), names(cells[cells.len() - 1]));
        rows.insert(first[0].clone(), last.into_iter().collect());
    }
    rows
}

/// What a crate's manifest imports; tests may import more.
fn imports(folder: &std::path::Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join(folder).join("Cargo.toml"))
        .expect("a crate has a manifest");
    let manifest: toml::Table = text.parse().expect("a manifest is TOML");
    // Those of one architecture or system are imports like the others.
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let of_targets = targets.into_iter().flat_map(toml::Table::values);
    std::iter::once(&toml::Value::Table(manifest.clone()))
        .chain(of_targets)
        .flat_map(|table| ["dependencies", "build-dependencies"].map(|kind| table.get(kind)))
        .flatten()
        .filter_map(toml::Value::as_table)
        .flat_map(toml::Table::iter)
        .map(|(name, what)| what.get("package").and_then(toml::Value::as_str).unwrap_or(name))
        .filter(|name| name.starts_with("vshmem_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn crates_import_what_the_design_says() {
    let table = table();
    let mut wrong = Vec::new();
    for unit in crates().iter().filter(|unit| !unit.folder.starts_with("tests")) {
        let found = imports(&unit.folder);
        match table.get(&unit.name) {
            None => wrong
                .push(format!("{} has no row in the table of docs/internals/design.md", unit.name)),
            Some(allowed) if found != *allowed => {
                wrong.push(format!("{} imports {found:?}, the design says {allowed:?}", unit.name));
            }
            Some(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What only some may use: the crates that may not, the beginning of the path, what to use instead.
const LEFT_TO_OTHERS: &[(&[&str], &str, &str)] = &[
    (
        &["vshmem_wire", "vshmem_sync", "vshmem_team", "vshmem_channel"],
        "std::sync::atomic",
        "vshmem_mem's, which loom can replace",
    ),
    (
        &["vshmem_wire", "vshmem_sync", "vshmem_ipc", "vshmem_team", "vshmem_channel"],
        "libc",
        "rustix, or a function of vshmem_mem",
    ),
    (
        &["vshmem_sync", "vshmem_ipc", "vshmem_process", "vshmem_preload"],
        "std::thread::sleep",
        "the wait queue, which a wake ends",
    ),
    (
        &["vshmem_sync", "vshmem_ipc", "vshmem_wire"],
        "std::process",
        "an error that the caller can report",
    ),
    (&["vshmem_sync", "vshmem_ipc", "vshmem_wire"], "std::fs", "vshmem_link or vshmem_session"),
];

struct Named<'a> {
    beginning: &'a str,
    found: bool,
}

impl<'ast> Visit<'ast> for Named<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_test_only(attributes) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.look(&names);
        syn::visit::visit_path(self, path);
    }

    fn visit_use_tree(&mut self, tree: &'ast syn::UseTree) {
        self.look_in(tree, &mut Vec::new());
    }
}

impl Named<'_> {
    fn look(&mut self, names: &[String]) {
        // What std has of core has both names.
        let written = match names.split_first() {
            Some((first, rest)) if first == "core" && !rest.is_empty() => {
                format!("std::{}", rest.join("::"))
            }
            _ => names.join("::"),
        };
        self.found |=
            written == self.beginning || written.starts_with(&format!("{}::", self.beginning));
    }

    fn look_in(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.look(before);
                self.look_in(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Name(syn::UseName { ident })
            | syn::UseTree::Rename(syn::UseRename { ident, .. }) => {
                before.push(ident.to_string());
                self.look(before);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.look_in(tree, before))
            }
            syn::UseTree::Glob(_) => {}
        }
    }
}

#[test]
fn each_crate_leaves_to_others_what_is_theirs() {
    let mut wrong = Vec::new();
    for unit in crates() {
        let rules = LEFT_TO_OTHERS.iter().filter(|(names, ..)| names.contains(&unit.name.as_str()));
        for (_, beginning, instead) in rules {
            for file in &unit.files {
                let mut named = Named { beginning, found: false };
                named.visit_file(&file.syntax);
                if named.found {
                    wrong.push(format!("{}: {beginning}; use {instead}", file.path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

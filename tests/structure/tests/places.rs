//! A place of shared memory has its type from the layout.

use vshmem_structure::{crates, is_test_only};

use syn::visit::Visit;

/// Who makes a place of an offset, and why it may.
const MAKERS: &[(&str, &str)] = &[
    ("vshmem_mem/src/map_model.rs", "a view by offset"),
    ("vshmem_sync/src/lock/", "a record says where the rest of it lies"),
    ("vshmem_sync/src/message_ring/slot.rs", "the ring that a slot is of"),
    ("vshmem_sync/src/message_ring/tests.rs", "a ring for tests"),
    ("vshmem_ipc/src/check/checker.rs", "a record says where the rest of it lies"),
    ("vshmem_ipc/src/pool/chunk.rs", "what a chunk holds is its user's to know"),
    ("vshmem_ipc/src/recovery/threads.rs", "a record says which lock it is of"),
    ("vshmem_ipc/src/wait/wait_queue.rs", "as a signal handler finds it"),
    ("vshmem_ipc/src/msg/mode.rs", "one of two rings"),
    ("vshmem_ipc/src/msg/reserve.rs", "two words that are written as one"),
];

#[derive(Default)]
struct Makes {
    found: bool,
}

impl<'ast> Visit<'ast> for Makes {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.found |= names.ends_with(&["Place".to_owned(), "at".to_owned()]);
        syn::visit::visit_path(self, path);
    }
}

#[test]
fn places_are_made_by_the_layout_and_a_few_others() {
    let mut makers = Vec::new();
    for unit in crates().into_iter().filter(|unit| unit.name != "vshmem_wire") {
        for file in unit.files {
            let mut makes = Makes::default();
            makes.visit_file(&file.syntax);
            if makes.found {
                makers.push(file.path.display().to_string());
            }
        }
    }
    let is_known = |path: &String| MAKERS.iter().any(|(known, _)| path.contains(known));
    let unknown: Vec<_> = makers.iter().filter(|path| !is_known(path)).collect();
    let gone: Vec<_> = MAKERS
        .iter()
        .filter(|(known, _)| !makers.iter().any(|path| path.contains(known)))
        .collect();
    assert!(unknown.is_empty() && gone.is_empty(), "not listed: {unknown:?}; gone: {gone:?}");
}

//! Each field of what lies in a pool has a row in the table of counters, or is listed here as none.

use std::collections::BTreeSet;

use vshmem_structure::{crates, root};

/// Fields that are not counted up, and copies of such that are. What wraps in a counter is thought
/// about once: a new field goes here or into docs/internals/wire-format.md, under "Counters".
const NO_COUNTERS: [(&str, &str); 26] = [
    ("RawCell", "word"),
    (
        "DomainSlot",
        "state boot_id pid_namespace renewed agent name address rates agent_words born notify heard \
         drained spare",
    ),
    // The epoch is a copy of its domain's.
    (
        "ClientSlot",
        "state domain epoch pid start_low start_high uid attaches joined next words_uid \
         words_nonce leaving",
    ),
    // Copies of a cell.
    ("IntentEntry", "offset old tag new"),
    (
        "ThreadSlot",
        "owner task wait kind object next previous blocked result message process_ref awaited \
         intent_lock more_intents intents",
    ),
    ("AgentWords", "thread wake asked spare"),
    ("SemaphoreWait", "count set_sequence undo operations"),
    ("ReceiveWait", "mode mtype room queue_sequence"),
    ("SendWait", "unused size"),
    ("AddressWait", "unused offset"),
    ("NotifyWait", "unused number"),
    ("StateCell", "cell states"),
    ("ExtentSlot", "state first pages before after next previous spare"),
    ("FutexBucket", "lock head tail spare"),
    ("LockRow", "head generation inode start last client file answer"),
    ("SlabMeta", "class run"),
    ("UnitMeta", "owner next"),
    ("NodeRange", "first pages node spare distances"),
    ("ObjectHeader", "lock changed uid gid key next operated creator mode"),
    (
        "ShmSlot",
        "header size_low size_high first_page pages attach_time detach_time creator last maker \
         extent name places",
    ),
    ("SemSlot", "header count words wait_head wait_tail undos mixed spare"),
    (
        "MsgSlot",
        "header limit mode head tail_or_reserve sender receiver sent received receive_head receive_tail \
         send_head send_tail name most_messages most_bytes notify_head notify_tail long_ring \
         long_ring_rarity",
    ),
    // The tag is a copy of a cell's.
    ("MsgHeader", "mtype size ring_position owner tag"),
    ("AttachSlot", "segment next client"),
    ("UndoSlot", "client set next spare"),
    ("HostRecord", "boot_id device inode known"),
];
/// The version is the format's and never changes.
const SUPERBLOCK: &str = "magic version bytes uuid name total_bytes created evict_after owner_uid \
                          mode prepare backed geometry node_ranges signing_key checksum";
const REGISTRY: &str = "lock free_head free_tail high_water attach_hint clients_high page_bins \
                        extents_high extents_unused cleaning cleaner free_clients \
                        free_clients_last leavers futexes_used lock_table lock_rows lock_wants";

fn fields_of(item: &syn::ItemStruct) -> Vec<String> {
    let field = |field: &syn::Field| Some(format!("{}.{}", item.ident, field.ident.as_ref()?));
    item.fields.iter().filter_map(field).collect()
}

fn is_shared(item: &syn::ItemStruct) -> bool {
    let is_c = |attribute: &syn::Attribute| {
        let mut found = false;
        if attribute.path().is_ident("repr") {
            let _ = attribute.parse_nested_meta(|meta| {
                found |= meta.path.is_ident("C");
                if meta.input.peek(syn::token::Paren) {
                    let _: proc_macro2::Group = meta.input.parse()?;
                }
                Ok(())
            });
        }
        found
    };
    item.attrs.iter().any(is_c)
}

/// Every field of the structures whose bytes lie in a pool, as `Structure.field`.
fn shared_fields() -> BTreeSet<String> {
    let wire = crates().into_iter().find(|unit| unit.name == "vshmem_wire").expect("vshmem_wire");
    let mut found = BTreeSet::new();
    for file in &wire.files {
        for item in &file.syntax.items {
            if let syn::Item::Struct(item) = item
                && is_shared(item)
            {
                found.extend(fields_of(item));
            }
        }
    }
    found
}

#[test]
fn each_field_in_a_pool_has_a_row_among_the_counters_or_is_none() {
    let page = std::fs::read_to_string(root().join("docs/internals/wire-format.md")).unwrap();
    let (_, table) = page.split_once("\n## Counters\n").expect("a table of counters");
    let rows: BTreeSet<String> = table.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let lists = NO_COUNTERS.into_iter().chain([("Superblock", SUPERBLOCK), ("Registry", REGISTRY)]);
    let none: BTreeSet<String> = lists
        .flat_map(|(of, fields)| fields.split_whitespace().map(move |name| format!("{of}.{name}")))
        .collect();
    let fields = shared_fields();
    assert!(fields.len() > 150, "{} fields", fields.len());
    let neither: Vec<_> =
        fields.iter().filter(|name| !rows.contains(*name) && !none.contains(*name)).collect();
    assert!(
        neither.is_empty(),
        "without a row in wire-format.md, and not listed here: {neither:?}"
    );
    let both: Vec<_> = none.iter().filter(|name| rows.contains(*name)).collect();
    let gone: Vec<_> = none.iter().filter(|name| !fields.contains(*name)).collect();
    assert!(both.is_empty() && gone.is_empty(), "both: {both:?}; no longer there: {gone:?}");
    // A row for a field that is gone.
    let structures: BTreeSet<&str> =
        fields.iter().filter_map(|name| Some(name.split_once('.')?.0)).collect();
    let stale: Vec<_> = rows
        .iter()
        .filter(|row| row.split_once('.').is_some_and(|(of, _)| structures.contains(of)))
        .filter(|row| !fields.contains(*row))
        .collect();
    assert!(stale.is_empty(), "rows without a field: {stale:?}");
}

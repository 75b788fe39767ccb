//! Which file of a crate takes names from which other.
//!
//! A path is followed as the compiler does: down the modules, through `use` and `pub use`, to the
//! file that defines the name. That a parent declares its child (`mod child;`) or hands its names
//! on (`pub use child::Name`) is not an import: nothing in the parent depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};

use crate::tree::{Crate, SourceFile};

/// One file takes a name from another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    /// Who takes.
    pub from: PathBuf,
    /// Who defines.
    pub to: PathBuf,
    /// The name.
    pub name: String,
}

/// All imports inside a crate.
#[must_use]
pub fn arrows(unit: &Crate) -> BTreeSet<Arrow> {
    let modules: BTreeMap<&[String], &SourceFile> =
        unit.files.iter().map(|file| (file.module.as_slice(), file)).collect();
    let reexports: BTreeMap<&[String], Vec<Use>> =
        unit.files.iter().map(|file| (file.module.as_slice(), uses(&file.syntax))).collect();
    let tree = Tree { modules, uses: reexports };
    let mut found = BTreeSet::new();
    for file in &unit.files {
        for path in paths(file) {
            let Some((target, name)) = tree.resolve(&file.module, &path, 0) else { continue };
            if target.path != file.path {
                found.insert(Arrow { from: file.path.clone(), to: target.path.clone(), name });
            }
        }
    }
    found
}

/// Groups of files that import each other, directly or through others; each sorted.
#[must_use]
pub fn circles(arrows: &BTreeSet<Arrow>) -> Vec<Vec<PathBuf>> {
    let mut next: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = BTreeMap::new();
    for arrow in arrows {
        next.entry(&arrow.from).or_default().insert(&arrow.to);
    }
    let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
        next.keys().map(|from| (*from, reach(&next, from))).collect();
    let mut found: BTreeSet<Vec<PathBuf>> = BTreeSet::new();
    for (from, all) in &reached {
        if all.contains(from) {
            let circle =
                all.iter().filter(|to| reached.get(**to).is_some_and(|back| back.contains(from)));
            found.insert(circle.map(|path| (*path).clone()).collect());
        }
    }
    found.into_iter().collect()
}

fn reach<'a>(
    next: &BTreeMap<&'a PathBuf, BTreeSet<&'a PathBuf>>,
    from: &PathBuf,
) -> BTreeSet<&'a PathBuf> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&PathBuf> = next.get(from).into_iter().flatten().copied().collect();
    while let Some(path) = open.pop() {
        if let Some((kept, _)) = next.get_key_value(path)
            && seen.insert(*kept)
        {
            open.extend(next[path].iter().copied());
        }
    }
    seen
}

/// One name that a `use` brings into its module.
#[derive(Debug, Clone)]
struct Use {
    /// Under this name; `*` for all.
    name: String,
    /// From there, as written.
    path: Vec<String>,
    /// It is handed on to other modules.
    public: bool,
}

/// The modules of a crate, and what is in scope in each.
struct Tree<'a> {
    modules: BTreeMap<&'a [String], &'a SourceFile>,
    uses: BTreeMap<&'a [String], Vec<Use>>,
}

/// Names that were handed on more often than this are given up: two modules hand them to each
/// other.
const DEEPEST: usize = 12;

impl<'a> Tree<'a> {
    /// The file that defines what `path`, written in `module`, means; and its name there. `None`
    /// for other crates' names.
    fn resolve(
        &self,
        module: &[String],
        path: &[String],
        depth: usize,
    ) -> Option<(&'a SourceFile, String)> {
        if depth > DEEPEST {
            return None;
        }
        let Some((mut at, rest)) = self.begin(module, path) else {
            let (first, tail) = path.split_first()?;
            return self.through_use(module, first, tail, depth);
        };
        let mut rest = rest.iter();
        while let Some(name) = rest.next() {
            let child: Vec<String> = at.iter().cloned().chain([name.clone()]).collect();
            if self.modules.contains_key(child.as_slice()) {
                at = child;
                continue;
            }
            let file = *self.modules.get(at.as_slice())?;
            if defines(&file.syntax, name) {
                return Some((file, name.clone()));
            }
            let tail: Vec<String> = rest.cloned().collect();
            return self.through_use(&at, name, &tail, depth).or(Some((file, name.clone())));
        }
        self.modules.get(at.as_slice()).map(|file| (*file, "self".to_owned()))
    }

    /// Where a path starts, and what of it is left.
    fn begin<'p>(
        &self,
        module: &[String],
        path: &'p [String],
    ) -> Option<(Vec<String>, &'p [String])> {
        let first = path.first()?;
        match first.as_str() {
            "crate" => Some((Vec::new(), &path[1..])),
            "self" => Some((module.to_vec(), &path[1..])),
            "super" => {
                let mut up = module.to_vec();
                let mut rest = path;
                while rest.first().is_some_and(|name| name == "super") {
                    up.pop()?;
                    rest = &rest[1..];
                }
                Some((up, rest))
            }
            name => {
                let child: Vec<String> = module.iter().cloned().chain([name.to_owned()]).collect();
                self.modules.contains_key(child.as_slice()).then(|| (module.to_vec(), path))
            }
        }
    }

    fn through_use(
        &self,
        at: &[String],
        name: &str,
        tail: &[String],
        depth: usize,
    ) -> Option<(&'a SourceFile, String)> {
        let candidates = self.uses.get(at)?;
        let named = candidates.iter().find(|one| one.name == name);
        let all = candidates.iter().filter(|one| one.name == "*");
        for one in named.into_iter().chain(all) {
            let mut path = one.path.clone();
            if one.name == "*" {
                path.push(name.to_owned());
            }
            path.extend_from_slice(tail);
            if let Some(found) = self.resolve(at, &path, depth + 1)
                && (one.name != "*" || defines(&found.0.syntax, &found.1))
            {
                return Some(found);
            }
        }
        None
    }
}

/// Whether the file itself has an item of that name.
fn defines(file: &syn::File, name: &str) -> bool {
    file.items.iter().any(|item| {
        let ident = match item {
            syn::Item::Const(item) => &item.ident,
            syn::Item::Enum(item) => &item.ident,
            syn::Item::Fn(item) => &item.sig.ident,
            syn::Item::Static(item) => &item.ident,
            syn::Item::Struct(item) => &item.ident,
            syn::Item::Trait(item) => &item.ident,
            syn::Item::Type(item) => &item.ident,
            syn::Item::Union(item) => &item.ident,
            syn::Item::Mod(item) if item.content.is_some() => &item.ident,
            syn::Item::Macro(item) => match &item.ident {
                Some(ident) => ident,
                None => return false,
            },
            _ => return false,
        };
        ident == name
    })
}

/// Every path of a file that may lead into its own crate, tests aside.
fn paths(file: &SourceFile) -> Vec<Vec<String>> {
    let mut collected = Paths(Vec::new());
    for item in &file.syntax.items {
        collected.visit_item(item);
    }
    collected.0
}

struct Paths(Vec<Vec<String>>);

/// Whether an item is there for the tests of its file alone: `cfg(test)`, `cfg(all(test, ...))`.
#[must_use]
pub fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    fn is_test(condition: &syn::Meta) -> bool {
        match condition {
            syn::Meta::List(list) if list.path.is_ident("all") => list
                .parse_args_with(Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated)
                .is_ok_and(|all| all.iter().any(is_test)),
            condition => condition.path().is_ident("test"),
        }
    }
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Meta>().is_ok_and(|condition| is_test(&condition))
    })
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut found = Vec::new();
        flatten(&item.tree, &mut Vec::new(), is_public(&item.vis), &mut found);
        // What is only handed on binds nobody here.
        self.0.extend(
            found.into_iter().filter(|one| !one.public && one.name != "*").map(|one| one.path),
        );
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

fn is_public(visibility: &syn::Visibility) -> bool {
    !matches!(visibility, syn::Visibility::Inherited)
}

fn uses(file: &syn::File) -> Vec<Use> {
    let mut found = Vec::new();
    for item in &file.items {
        if let syn::Item::Use(item) = item {
            flatten(&item.tree, &mut Vec::new(), is_public(&item.vis), &mut found);
        }
    }
    found
}

fn flatten(tree: &syn::UseTree, before: &mut Vec<String>, public: bool, found: &mut Vec<Use>) {
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, public, found);
            before.pop();
        }
        syn::UseTree::Name(name) if name.ident == "self" => {
            let known_as = before.last().cloned().unwrap_or_default();
            found.push(Use { name: known_as, path: before.clone(), public });
        }
        syn::UseTree::Name(name) => found.push(entry(before, &name.ident, &name.ident, public)),
        syn::UseTree::Rename(rename) => {
            found.push(entry(before, &rename.ident, &rename.rename, public))
        }
        syn::UseTree::Glob(_) => {
            found.push(Use { name: "*".to_owned(), path: before.clone(), public })
        }
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, before, public, found);
            }
        }
    }
}

fn entry(before: &[String], ident: &syn::Ident, known_as: &syn::Ident, public: bool) -> Use {
    let path = before.iter().cloned().chain([ident.to_string()]).collect();
    Use { name: known_as.to_string(), path, public }
}

//! Functions and how long they are.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A function with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line on which it begins, from 1.
    pub line: usize,
    /// Lines from its signature to its closing brace. Functions inside it are counted with it.
    pub lines: usize,
}

/// All functions of a file, outermost ones only.
#[must_use]
pub fn functions(file: &syn::File) -> Vec<Function> {
    let mut found = Found(Vec::new());
    found.visit_file(file);
    found.0
}

struct Found(Vec<Function>);

impl Found {
    fn push(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let (first, last) = (signature.span().start().line, body.span().end().line);
        self.0.push(Function {
            name: signature.ident.to_string(),
            line: first,
            lines: last + 1 - first,
        });
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.push(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.push(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.push(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

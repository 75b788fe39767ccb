//! Where libvshmem is: VSHMEM_LIB_DIR, or the build of the tree that this crate lies in.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-env-changed=VSHMEM_LIB_DIR");
    let tree = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/release");
    let directory = std::env::var_os("VSHMEM_LIB_DIR").map_or_else(tree, PathBuf::from);
    let directory = directory.canonicalize().unwrap_or(directory);
    println!("cargo::rustc-link-search=native={}", directory.display());
    println!("cargo::rustc-link-lib=dylib=vshmem");
    // For this crate's own tests and examples; a program says by itself where its libraries are.
    println!("cargo::rustc-link-arg-tests=-Wl,-rpath,{}", directory.display());
    println!("cargo::rustc-link-arg-examples=-Wl,-rpath,{}", directory.display());
}

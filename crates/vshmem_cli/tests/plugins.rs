//! Programs that open libraries while they run: what those do with System V IPC is the pool's, too.

mod rig;

use std::path::Path;
use std::process::Command;

use rig::{Name, complaint, library_is_beside, vshmem};

const PLUGIN: &str = "#include <sys/shm.h>
int make(void) { return shmget(IPC_PRIVATE, 4096, 0600); }
";

/// Opens the plugin by a bare name, which is found by the program's own RUNPATH alone, has it make
/// a segment and removes it.
const PROGRAM: &str = "#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/shm.h>
int main(void)
{
	void *plugin = dlopen(\"libmakes_a_segment.so\", RTLD_NOW | FLAGS);
	if (!plugin) {
		fprintf(stderr, \"%s\\n\", dlerror());
		return 2;
	}
	int (*make)(void);
	*(void **)&make = dlsym(plugin, \"make\");
	int id = make();
	if (shmctl(id, IPC_RMID, 0)) {
		perror(\"the plugin's segment is not the program's\");
		return 1;
	}
	return 0;
}
";

fn compile(source: &str, to: &Path, words: &[&str]) {
    let file = to.with_extension("c");
    std::fs::write(&file, source).unwrap();
    let built = Command::new("cc").arg("-o").arg(to).arg(&file).args(words).status();
    assert!(built.is_ok_and(|status| status.success()), "this test needs cc");
}

/// Runs the program with those flags of dlopen, in a pool.
fn shares_with_plugin(test: &str, flags: &str) {
    if !library_is_beside() {
        println!("SKIPPED: the preload library is not built beside the command");
        return;
    }
    let name = Name::with_pool(test);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    compile(PLUGIN, &path.join("libmakes_a_segment.so"), &["-shared", "-fPIC"]);
    let runpath = format!("-Wl,--enable-new-dtags,-rpath,{}", path.display());
    let program = path.join("program");
    compile(PROGRAM, &program, &[&format!("-DFLAGS={flags}"), &runpath, "-ldl"]);
    let output = vshmem().args(["run", "--pool", &name.0, "--"]).arg(&program).output().unwrap();
    assert!(output.status.success(), "{}", complaint(&output));
}

#[test]
fn a_plugin_shares_the_pool() {
    shares_with_plugin("plugin", "0");
}

/// As PHP opens its extensions.
#[test]
fn a_plugin_bound_to_its_own_libraries_shares_the_pool() {
    shares_with_plugin("deep", "RTLD_DEEPBIND");
}

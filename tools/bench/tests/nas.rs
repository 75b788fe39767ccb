//! NAS benchmarks from a directory: scripts that print what the real ones print, run under mpirun.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use vshmem_bench::study::{Case, Environment, Extent, Outcome, Places, RunCase, Setup, catalogue};
use vshmem_bench::{Error, Kernels};

/// As LU of version 3.4 ends; its own check comes before, in lines that begin as the last ones do.
const LU: &str = "
 NAS Parallel Benchmarks 3.4 -- LU Benchmark

 Size:   12x  12x  12  (class S)
 Iterations:   50
 Total number of processes:      2

 Time step    1
 Time step   50

 Verification being performed for class S
 Accuracy setting for epsilon =  0.1000000000000E-07
 Comparison of RMS-norms of residual
           1   0.1619634321098E-01 0.1619634321098E-01 0.3748059457930E-13
 Verification Successful


 LU Benchmark Completed.
 Class           =                        S
 Size            =             12x  12x  12
 Iterations      =                       50
 Time in seconds =                     0.03
 Total processes =                        2
 Active processes=                        2
 Mop/s total     =                  3437.14
 Mop/s/process   =                  1718.57
 Operation type  =           floating point
 Verification    =               SUCCESSFUL
 Version         =                    3.4.2
";

/// A script of that name that prints the text as rank 0, and nothing as any other.
fn put(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    let script =
        format!("#!/bin/sh\n[ \"$OMPI_COMM_WORLD_RANK\" = 0 ] || exit 0\ncat <<'END'{text}END\n");
    // Written by a process of its own: a child that another test's thread has just forked would
    // have this process's descriptors open, and `execve` would fail with ETXTBSY.
    let mut install = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    install.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(install.wait().unwrap().success(), "{path:?} was not written");
}

fn run(directory: &Path, scratch: &Path, bench: &str) -> Result<(Case, Outcome), Error> {
    let cases = catalogue(Extent::Default, Some(directory));
    let is = |case: &&Case| case.bench == bench && case.environment == Environment::Native;
    let case = cases.iter().find(is).unwrap_or_else(|| panic!("no case {bench}")).clone();
    let command = Path::new("/nonexistent/vshmem");
    let mut places = Places::new(Setup {
        command: command.to_owned(),
        kernels: Kernels::of(None, command),
        lab: None,
        nas: Some(directory.to_owned()),
        scratch: scratch.to_owned(),
        stage: Vec::new(),
        placement: None,
    })?;
    let outcome = places.run(&case)?;
    Ok((case, outcome))
}

#[test]
fn what_a_nas_benchmark_prints_is_read_and_its_own_check_counts() {
    if !Command::new("mpirun").arg("--version").output().is_ok_and(|said| said.status.success()) {
        // Not by a macro: that is not shown in the log of a test that passed.
        let line = "SKIPPED: NAS benchmarks: there is no mpirun (apt-get install openmpi-bin)\n";
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    let (directory, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(directory.path(), "lu.S.x", LU);
    put(directory.path(), "cg.S.x", &LU.replace("  SUCCESSFUL", "UNSUCCESSFUL"));
    let (case, outcome) = run(directory.path(), scratch.path(), "lu-S-x").unwrap();
    let figures: Vec<Option<f64>> =
        case.figures.iter().map(|figure| figure.of(&outcome.line)).collect();
    assert_eq!(figures, [Some(0.03), Some(3437.14)], "{}", outcome.line);
    let error = run(directory.path(), scratch.path(), "cg-S-x").unwrap_err().to_string();
    assert!(error.contains("Verification = SUCCESSFUL"), "{error}");
}

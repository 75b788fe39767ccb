//! Running commands in guests.

use std::io::{Seek, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use vshmem_lab::{ExecRequest, Lab, Streams};

use crate::rig::{EXEC, Ran, Sink, feed, name, run, shared, shell, until};
use crate::run::Test;

/// Of guests of every kind.
pub const TESTS: &[Test] = &[
    ("exit_codes_and_streams", exit_codes_and_streams),
    ("environment_directory_and_user", environment_directory_and_user),
    ("binary_data_both_ways", binary_data_both_ways),
    ("many_commands_at_once", many_commands_at_once),
    ("a_command_that_does_not_read", a_command_that_does_not_read),
    ("signals_are_passed_on", signals_are_passed_on),
    ("a_command_ends_with_its_client", a_command_ends_with_its_client),
    ("a_peer_guest_runs_commands", a_peer_guest_runs_commands),
];

fn exit_codes_and_streams() {
    let lab = shared();
    assert_eq!(
        shell(lab, 1, "echo out; echo err >&2; exit 7"),
        Ran { code: 7, out: b"out\n".into(), err: b"err\n".into() }
    );
    assert_eq!(shell(lab, 2, "kill -TERM $$").code, 128 + 15);
    assert_eq!(run(lab, 1, &ExecRequest::new(["true"])), Ran { code: 0, out: vec![], err: vec![] });
    let unknown = run(lab, 1, &ExecRequest::new(["no-such-program"]));
    assert_eq!(unknown.code, 127);
    assert!(String::from_utf8_lossy(&unknown.err).contains("no-such-program"));
    assert!(!String::from_utf8_lossy(&unknown.err).contains("the guest's own"));
    let of_the_host = run(lab, 1, &ExecRequest::new(["/root/program"]));
    assert_eq!(of_the_host.code, 127);
    assert!(
        String::from_utf8_lossy(&of_the_host.err).contains("/root and /run are the guest's own")
    );
    assert_eq!(run(lab, 1, &ExecRequest::new(["/etc/passwd"])).code, 126);
    // A program that the command leaves behind does not hold it up.
    assert_eq!(shell(lab, 1, "sleep 600 & echo left").text(), "left");
    shell(lab, 1, "kill $(pidof sleep)");
}

fn environment_directory_and_user() {
    let lab = shared();
    let request = ExecRequest {
        env: vec![("COLOUR".into(), "blue green".into())],
        cwd: Some("/var/tmp".into()),
        user: Some((1234, 4321)),
        ..ExecRequest::shell("echo \"$COLOUR\" $(pwd) $(id -u) $(id -g)")
    };
    assert_eq!(run(lab, 1, &request).text(), "blue green /var/tmp 1234 4321");
    let nowhere = ExecRequest { cwd: Some("/nowhere".into()), ..ExecRequest::shell("true") };
    assert_eq!(run(lab, 1, &nowhere).code, 127);
}

fn binary_data_both_ways() {
    let lab = shared();
    let data: Vec<u8> =
        (0..8_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&data).unwrap();
    file.rewind().unwrap();
    let ran = feed(lab, 2, &ExecRequest::new(["cat"]), Some(file));
    assert_eq!(ran.code, 0);
    assert!(ran.out == data, "{} bytes came back as {} others", data.len(), ran.out.len());
}

fn many_commands_at_once() {
    let lab = shared();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..24)
            .map(|number| {
                scope.spawn(move || {
                    shell(
                        lab,
                        1 + number % 2,
                        &format!("head -c 100000 /dev/zero | wc -c; exit {number}"),
                    )
                })
            })
            .collect();
        for (number, thread) in running.into_iter().enumerate() {
            let ran = thread.join().unwrap();
            assert_eq!((ran.text(), ran.code), ("100000", number as i32));
        }
    });
}

fn a_command_that_does_not_read() {
    let lab = shared();
    let endless = std::fs::File::open("/dev/zero").unwrap();
    assert_eq!(feed(lab, 1, &ExecRequest::new(["head", "-c", "5"]), Some(endless)).out, [0; 5]);
    let endless = std::fs::File::open("/dev/zero").unwrap();
    assert_eq!(feed(lab, 1, &ExecRequest::new(["true"]), Some(endless)).code, 0);
}

fn client(words: &[&str]) -> std::process::Child {
    shared();
    Command::new(std::env::current_exe().unwrap())
        .args([EXEC, &name("shared"), "guest1"])
        .args(words)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

fn runs(lab: &Lab, program: &str) -> bool {
    shell(lab, 1, &format!("pidof {program}")).code == 0
}

fn signals_are_passed_on() {
    let lab = shared();
    let mut client = client(&["tail", "-f", "/dev/null"]);
    until("the command runs", || runs(lab, "tail"));
    Command::new("kill").args(["-INT", &client.id().to_string()]).status().unwrap();
    assert_eq!(client.wait().unwrap().code(), Some(128 + 2));
    assert!(!runs(lab, "tail"));
}

fn a_command_ends_with_its_client() {
    let lab = shared();
    let mut client = client(&["tail", "-f", "/dev/null"]);
    until("the command runs", || runs(lab, "tail"));
    client.kill().unwrap();
    client.wait().unwrap();
    until("the command has ended", || !runs(lab, "tail"));
}

fn a_peer_guest_runs_commands() {
    let lab = shared();
    let program = std::env::current_exe().unwrap();
    let program = program.file_name().unwrap().to_str().unwrap();
    let ran = run(
        lab,
        1,
        &ExecRequest::new([program, EXEC, "this", "guest2", "sh", "-c", "hostname; exit 9"]),
    );
    assert_eq!((ran.text(), ran.code), ("guest2", 9));
    let other_user =
        ExecRequest { user: Some((1234, 1234)), ..ExecRequest::shell("cat /run/vshmem/lab.json") };
    assert_ne!(run(lab, 1, &other_user).code, 0);
}

pub fn latency() {
    let lab = shared();
    let request = ExecRequest::new(["true"]);
    let mut times: Vec<_> = (0..21)
        .map(|_| {
            let streams = Streams {
                stdin: None,
                stdout: Box::new(Sink::default()),
                stderr: Box::new(Sink::default()),
            };
            let start = Instant::now();
            assert_eq!(lab.exec_with(1, &request, streams).unwrap(), 0);
            start.elapsed()
        })
        .collect();
    times.sort();
    println!("  exec of `true`: median {:?}, worst {:?}", times[10], times[20]);
}

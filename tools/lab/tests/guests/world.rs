//! What a guest sees, and what the host sees of the guests.

use std::io::Read;
use std::os::unix::fs::MetadataExt;

use vshmem_lab::ExecRequest;

use crate::peer::{ASK, ECHO};
use crate::rig::{pool, run, shared, shell, until};
use crate::run::Test;

/// Of guests of every kind.
pub const TESTS: &[Test] = &[
    ("writable_and_read_only_places", writable_and_read_only_places),
    ("names", names),
    ("tcp_and_udp", tcp_and_udp),
    ("the_host_sees_no_network", the_host_sees_no_network),
];

fn writable_and_read_only_places() {
    let lab = shared();
    let line = "for d in /tmp /var/tmp /run /dev/shm /root /run/lock; do echo x > $d/probe || exit 1; done; touch /etc/probe 2>/dev/null && echo written";
    assert_eq!(shell(lab, 1, line).text() == "written", crate::ROOT_IS_WRITABLE);
    for path in ["/tmp/probe", "/etc/probe"] {
        assert!(!std::path::Path::new(path).exists(), "{path} was written on the host");
    }
    let other_user = ExecRequest {
        user: Some((1234, 1234)),
        cwd: Some("/".into()),
        ..ExecRequest::shell("echo x > /tmp/p && echo x > /dev/shm/p && echo x > /dev/null")
    };
    assert_eq!(run(lab, 1, &other_user).code, 0);
    assert_eq!(
        shell(lab, 2, "test -e /tmp/probe").code,
        1,
        "the guests share nothing but the pool"
    );
    let line = format!(
        "exec 3<>/dev/ptmx && ls /dev/pts/0 && cat /proc/sys/kernel/hostname && test -d /sys/class/net/{}",
        crate::INTERFACE
    );
    assert_eq!(shell(lab, 1, &line).code, 0);
}

fn names() {
    let lab = shared();
    assert_eq!(
        shell(lab, 2, "hostname; cat /run/vshmem/domain /run/vshmem/pool").text(),
        "guest2\nguest2\ntank"
    );
    assert_eq!(shell(lab, 1, "getent hosts guest2 | cut -d' ' -f1").text(), "10.77.0.2");
    assert_eq!(shell(lab, 1, "getent hosts guest1 | cut -d' ' -f1").text(), "10.77.0.1");
    let up = "cat /sys/class/net/lo/operstate /sys/class/net/lo/flags";
    assert_eq!(shell(lab, 1, up).text(), "unknown\n0x9");
}

pub fn the_pool_is_shared() {
    let lab = shared();
    let (write, user) = crate::WRITE_TO_POOL;
    let write = ExecRequest { user, cwd: Some("/".into()), ..ExecRequest::shell(write) };
    assert_eq!(run(lab, 1, &write).code, 0);
    let mut seen = [0; 11];
    std::fs::File::open(pool()).unwrap().read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"from guest1");
    assert_eq!(shell(lab, 2, crate::READ_FROM_POOL).text(), "from guest1");
    // Letting the guests in has changed nothing about the file.
    let status = std::fs::metadata(pool()).unwrap();
    assert_eq!((status.uid(), status.gid(), status.mode() & 0o7777), (0, 0, 0o640));
}

fn tcp_and_udp() {
    let lab = shared();
    let program = std::env::current_exe().unwrap();
    let program = program.file_name().unwrap().to_str().unwrap();
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| run(lab, 1, &ExecRequest::new([program, ECHO])));
        // Port 5000 (hexadecimal 1388) is listening.
        until("the echo listens", || {
            shell(lab, 1, "grep -q ':1388 .* 0A ' /proc/net/tcp && grep -q ':1388 ' /proc/net/udp")
                .code
                == 0
        });
        let ran = run(lab, 2, &ExecRequest::new([program, ASK, "guest1"]));
        assert_eq!(ran.code, 0, "{}", String::from_utf8_lossy(&ran.err));
        assert_eq!(echo.join().unwrap().code, 0);
    });
}

fn the_host_sees_no_network() {
    shared();
    let links: Vec<_> = std::fs::read_dir("/sys/class/net")
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(!links.iter().any(|link| link == "lab0" || link == "tap1"), "{links:?}");
    assert!(!std::fs::read_to_string("/proc/self/mounts").unwrap().contains("vshmem-lab"));
}

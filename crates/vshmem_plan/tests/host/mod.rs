//! A host that does not exist: a directory with the files of /proc and /sys that a plan's check
//! reads, as the kernel would write them while the plan's guests run as planned.
#![allow(dead_code, missing_docs)] // each test file uses a part

use std::fs;
use std::path::Path;

use vshmem_plan::machine::Source;
use vshmem_plan::{HugePage, NumberSet, Plan, PoolPlacement, PoolRequest, Request, plan};

/// A plan with huge pages and a pool on the second node, for two sockets with threads.
pub fn two_guests() -> Plan {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/two-sockets-smt.xml");
    let machine = Source::Xml(file).read().unwrap();
    let pool = PoolRequest { bytes: 1 << 30, placement: PoolPlacement::Node(1) };
    let request =
        Request { pool: Some(pool), huge_pages: Some(HugePage::Mega2), ..Request::default() };
    plan(&machine, &request).unwrap()
}

/// A directory that stands for `/`.
pub struct Host {
    directory: tempfile::TempDir,
}

/// The pid of the first guest's process; the second's is 100 more. Its threads are the pid itself,
/// then a vCPU each, then a worker.
pub const FIRST: u32 = 1000;
/// A worker's thread, from the pid.
pub const WORKER: u32 = 90;
const START: u64 = 0x7f00_0000_0000;
const POOL_START: u64 = 0x7e00_0000_0000;

impl Host {
    /// With all guests of the plan.
    pub fn of(plan: &Plan) -> Self {
        let host = Self { directory: tempfile::tempdir().unwrap() };
        host.write("/proc/sys/kernel/numa_balancing", "0");
        host.write("/sys/kernel/mm/ksm/run", "0");
        host.write("/sys/devices/system/cpu/online", "0-63");
        host.write("/sys/devices/system/node/online", "0-1");
        for cpu in plan.guest_cpus().iter() {
            let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
            host.write(&file, "performance");
        }
        host.write("/sys/fs/cgroup/machine.slice/cpuset.cpus.effective", "0-63");
        host.write("/sys/fs/cgroup/machine.slice/cpuset.mems.effective", "0-1");
        for (number, guest) in (0..).zip(&plan.guests) {
            host.start(FIRST + 100 * number, guest);
            let cell = &guest.cells[0];
            host.memory(FIRST + 100 * number, cell.bytes, &[(cell.host_node, cell.bytes)], 2048, 1);
        }
        host
    }

    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    pub fn write(&self, file: &str, text: &str) {
        let place = self.root().join(file.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, format!("{text}\n")).unwrap();
    }

    /// A guest's process, in the slice of all machines.
    pub fn start(&self, pid: u32, guest: &vshmem_plan::Guest) {
        let line = format!("/usr/bin/qemu-system-x86_64\0-name\0{},debug-threads=on\0", guest.name);
        self.write(&format!("/proc/{pid}/cmdline"), &line);
        self.write(&format!("/proc/{pid}/cgroup"), "0::/machine.slice/guest.scope");
        self.thread(pid, pid, "qemu-system-x86", &guest.emulator);
        self.thread(pid, pid + WORKER, "worker", &guest.emulator);
        for (number, cpu) in (0..).zip(&guest.vcpus) {
            let name = format!("CPU {number}/KVM");
            self.thread(pid, pid + 1 + number, &name, &[*cpu].into_iter().collect());
        }
    }

    pub fn thread(&self, pid: u32, id: u32, name: &str, cpus: &NumberSet) {
        let task = format!("/proc/{pid}/task/{id}");
        self.write(&format!("{task}/comm"), name);
        self.write(
            &format!("{task}/status"),
            &format!("Name:\t{name}\nCpus_allowed_list:\t{cpus}"),
        );
    }

    /// Memory of one node of a guest as (node, bytes), in pages of so many KiB, the code of QEMU on
    /// another node, and the pool with 16 MiB in use on `pool_node`.
    pub fn memory(&self, pid: u32, size: u64, on: &[(u32, u64)], page_kib: u64, pool_node: u32) {
        let end = START + size;
        let pool_end = POOL_START + (1 << 30);
        self.write(
            &format!("/proc/{pid}/maps"),
            &format!(
                "560000000000-560000400000 r-xp 00000000 08:01 7 /usr/bin/qemu-system-x86_64\n\
                 {POOL_START:x}-{pool_end:x} rw-s 00000000 00:01 8 /dev/shm/vshmem.job1\n\
                 {START:x}-{end:x} rw-s 00000000 00:01 9 /memfd:memory-backend-memfd (deleted)"
            ),
        );
        let pages: Vec<String> = on
            .iter()
            .map(|(node, bytes)| format!("N{node}={}", (bytes >> 10) / page_kib))
            .collect();
        let huge = if page_kib > 4 { "huge " } else { "" };
        self.write(
            &format!("/proc/{pid}/numa_maps"),
            &format!(
                "560000000000 default file=/usr/bin/qemu-system-x86_64 mapped=9 N0=5 N1=4 kernelpagesize_kB=4\n\
                 {POOL_START:x} bind:1 file=/dev/shm/vshmem.job1 dirty=4096 N{pool_node}=4096 kernelpagesize_kB=4\n\
                 {START:x} bind:0 file=/memfd:memory-backend-memfd\\040(deleted) {huge}{} kernelpagesize_kB={page_kib}",
                pages.join(" ")
            ),
        );
    }
}

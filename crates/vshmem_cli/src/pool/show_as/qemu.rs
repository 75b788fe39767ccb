//! Arguments of QEMU's command line (qemu(1), docs/system/devices/ivshmem.rst).

use super::form::Device;
use super::host_pool::HostPool;

/// Without KVM, QEMU's default of one CPU makes atomic operations that are none for others.
pub const ONE_CPU: &str = "without `-accel kvm` the guest needs room for two CPUs, or it refuses the pool: add `-accel tcg,thread=multi -smp 2`, or `-smp 1,maxcpus=2`";

/// The arguments, each option on a line of its own.
pub fn arguments(pool: &HostPool, device: Device) -> String {
    let id = format!("vshmem-{}", pool.name);
    let memory = format!(
        "-object memory-backend-file,id={id},share=on,mem-path={},size={}",
        pool.path.display(),
        pool.bytes
    );
    match device {
        Device::Plain => format!("{memory}\n-device ivshmem-plain,memdev={id}\n"),
        Device::Doorbell => format!(
            "-chardev socket,id={id},path={}\n-device ivshmem-doorbell,chardev={id},vectors={}\n",
            pool.socket.display(),
            pool.vectors
        ),
        // Options of -machine and -m add up with those given elsewhere.
        Device::Dax => format!(
            "-machine nvdimm=on\n-m slots=4,maxmem={}G\n{memory},align=2M\n-device nvdimm,memdev={id}\n",
            room(pool)
        ),
    }
}

/// GiB of address space for a guest with the pool and its own memory.
fn room(pool: &HostPool) -> u64 {
    (pool.bytes.next_power_of_two() >> 30).max(64) * 2
}

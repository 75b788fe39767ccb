//! The oracle's cases on each device by which QEMU can give a pool.

use vshmem_acceptance::guests::Machine;
use vshmem_acceptance::suite::say;
use vshmem_acceptance::{Guests, build, guests};
use vshmem_lab::Device;

use crate::{machine, oracle};

pub fn all() {
    crate::close_shared();
    let driver = build::driver().is_some();
    let mut machines = vec![
        Machine::Qemu { device: Device::Plain, driver: false },
        Machine::Qemu { device: Device::Dax, driver: false },
    ];
    if driver {
        machines.push(Machine::Qemu { device: Device::Plain, driver: true });
        machines.push(Machine::Qemu { device: Device::Doorbell, driver: true });
    } else {
        vshmem_acceptance::suite::skip("the driver's devices", "it cannot be built here");
    }
    // The shared lab has shown its own.
    for other in machines.into_iter().filter(|other| *other != machine()) {
        let guests = Guests::boot(other, "device", 1, other.pool("64M"), &guests::programs());
        let listed = guests.run(1, &["vshmem", "pool", "ls"]).ok();
        say(listed.lines().last().unwrap_or_default());
        oracle::on(&guests, "vshmem run --share all,posix");
        guests.pool().assert_clean();
    }
}

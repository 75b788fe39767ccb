//! A guest whose driver is loaded when root has used its pool already.

use vshmem_acceptance::guests::Machine;
use vshmem_acceptance::suite::skip;
use vshmem_acceptance::{Actor, Guests, build};
use vshmem_lab::Device;

use crate::exchange::RUN;
use crate::users::everybody_wakes_everybody;

/// In the group of the pool's device.
const MEMBER: &[&str] = &["setpriv", "--reuid", "6001", "--regid", "6100", "--clear-groups"];
/// As its udev rule does.
const GROUP: &str = "chgrp 6100 /dev/vshmem/* && chmod 0660 /dev/vshmem/*";

pub fn members() {
    let Some(driver) = build::driver() else {
        return skip("members after a late driver", "there is no driver for the guests' kernel");
    };
    for device in [Device::Plain, Device::Doorbell] {
        let machine = Machine::Qemu { device, driver: false };
        let stage = std::slice::from_ref(&driver);
        let guests = Guests::boot(machine, "late", 1, machine.pool("64M"), stage);
        let join = |user: &[&str]| {
            let mut user = Actor::in_guest(&guests, 1, &[user, RUN].concat(), &[]);
            let set = user.number("semget 0 1 0600");
            assert_eq!(user.ask(&format!("semctl {set} 0 rmid")), "0");
            user
        };
        drop(join(&[]));
        guests.run(1, &["insmod", "/run/vshmem/bin/vshmem.ko"]).ok();
        guests.shell(1, GROUP).ok();
        let mut users = [join(MEMBER), join(&[])];
        // By which members wake root's threads.
        let file = guests.shell(1, "stat -c '%a %g' /dev/shm/vshmem-wait.*.0").ok();
        assert_eq!(file.trim(), "640 6100");
        everybody_wakes_everybody(&guests, &mut users);
        drop(users);
        guests.pool().assert_clean();
    }
}

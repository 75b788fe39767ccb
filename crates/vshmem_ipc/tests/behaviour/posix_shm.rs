//! POSIX shared memory objects.

use crate::fixture::*;
use vshmem_ipc::{Beginning, Client, Errno, PosixOpen};

const READ: PosixOpen = PosixOpen {
    read: true,
    write: false,
    create: false,
    exclusive: false,
    truncate: false,
    mode: 0,
};
const BOTH: PosixOpen = PosixOpen { write: true, ..READ };
const MAKE: PosixOpen = PosixOpen { create: true, mode: 0o600, ..BOTH };
const NEW: PosixOpen = PosixOpen { exclusive: true, ..MAKE };

/// Shorter calls, as root.
trait Objects {
    fn open(&self, name: &str, how: PosixOpen) -> Result<i32, Errno>;
    fn size(&self, id: i32, bytes: u64) -> Result<(), Errno>;
    fn unlink(&self, name: &str) -> Result<(), Errno>;
    fn write(&self, id: i32, at: u64, bytes: &[u8]);
    fn read(&self, id: i32, at: u64, bytes: usize) -> Vec<u8>;
}

impl Objects for Client {
    fn open(&self, name: &str, how: PosixOpen) -> Result<i32, Errno> {
        self.posix_shm_open(name.as_bytes(), how, &ROOT, &Zeroing(self.pool()))
    }

    fn size(&self, id: i32, bytes: u64) -> Result<(), Errno> {
        self.posix_shm_set_size(id, bytes, &Zeroing(self.pool()))
    }

    fn unlink(&self, name: &str) -> Result<(), Errno> {
        self.posix_shm_unlink(name.as_bytes(), &ROOT)
    }

    fn write(&self, id: i32, at: u64, bytes: &[u8]) {
        let place = self.posix_shm_attach(id).expect("an attach");
        self.pool().map().write(place.offset + at, bytes).expect("inside the pool");
        self.shmdt(id).expect("a detach");
    }

    fn read(&self, id: i32, at: u64, bytes: usize) -> Vec<u8> {
        let place = self.posix_shm_attach(id).expect("an attach");
        let mut found = vec![1; bytes];
        self.pool().map().read(place.offset + at, &mut found).expect("inside the pool");
        self.shmdt(id).expect("a detach");
        found
    }
}

#[test]
fn an_object_is_made_opened_by_its_name_and_unlinked() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    assert_eq!(me.open("data", BOTH), Err(Errno::NOENT));
    let id = me.open("data", NEW).unwrap();
    assert_eq!(me.open("data", NEW), Err(Errno::EXIST));
    assert_eq!(other.open("data", BOTH), Ok(id));
    assert_eq!(other.open("datb", BOTH), Err(Errno::NOENT));
    assert_eq!(me.posix_shm_name(id).as_deref(), Ok(&b"data"[..]));
    let stat = me.posix_shm_stat(id).unwrap();
    assert_eq!((stat.size, stat.capacity, stat.opened, stat.attached), (0, 0, 2, 0));
    assert!(stat.named);
    assert_eq!(me.posix_shm_attach(id), Err(Errno::NXIO));
    me.size(id, 5000).unwrap();
    me.write(id, 4990, b"0123456789");
    assert_eq!(other.read(id, 4990, 10), b"0123456789");
    sound(&pool);
    me.unlink("data").unwrap();
    assert_eq!(me.unlink("data"), Err(Errno::NOENT));
    assert_eq!(me.open("data", BOTH), Err(Errno::NOENT));
    assert_eq!(me.posix_shm_name(id), Err(Errno::NOENT));
    assert!(!me.posix_shm_stat(id).unwrap().named);
    let second = me.open("data", NEW).unwrap();
    assert_ne!(second, id);
    sound(&pool);
    me.posix_shm_close(id).unwrap();
    assert_eq!(me.posix_shm_close(id), Err(Errno::INVAL));
    assert_eq!(other.read(id, 4990, 10), b"0123456789");
    other.posix_shm_close(id).unwrap();
    assert_eq!(other.posix_shm_stat(id), Err(Errno::INVAL));
    me.posix_shm_close(second).unwrap();
    me.unlink("data").unwrap();
    empty(&pool, &me);
}

#[test]
fn names_are_checked_as_shm_open_does() {
    let pool = pool();
    let me = join(&pool, 10);
    for bad in ["", ".", "..", "a/b", "a\0b"] {
        assert_eq!(me.open(bad, MAKE), Err(Errno::INVAL), "{bad:?}");
        assert_eq!(me.unlink(bad), Err(Errno::INVAL), "{bad:?}");
    }
    assert_eq!(me.open(&"n".repeat(256), MAKE), Err(Errno::NAMETOOLONG));
    let longest = "n".repeat(255);
    let id = me.open(&longest, NEW).unwrap();
    assert_eq!(me.open(&longest, BOTH), Ok(id));
    assert_eq!(me.open(&longest[1..], BOTH), Err(Errno::NOENT));
    sound(&pool);
    me.unlink(&longest).unwrap();
    empty(&pool, &me);
}

#[test]
fn a_system_v_call_does_not_know_an_object() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.open("data", NEW).unwrap();
    me.size(id, 4096).unwrap();
    assert_eq!(me.shmat(id, true, false, &ROOT), Err(Errno::INVAL));
    assert_eq!(me.segment_stat(id, &ROOT), Err(Errno::INVAL));
    assert_eq!(me.segment_remove(id, &ROOT), Err(Errno::INVAL));
    assert_eq!(me.segment_change(id, 1, 1, 0o777, &ROOT), Err(Errno::INVAL));
    assert_eq!(me.segment_at_index(0, true, &ROOT), Err(Errno::INVAL));
    let info = me.shm_info().unwrap();
    assert_eq!((info.segments, info.pages, info.highest), (0, 0, 0));
    let segment = me.segment(PRIVATE, 1, CREATE).unwrap();
    let info = me.shm_info().unwrap();
    assert_eq!((info.segments, info.pages, info.highest), (1, 1, 1));
    assert_eq!(me.posix_shm_stat(segment), Err(Errno::INVAL));
    assert_eq!(me.posix_shm_attach(segment), Err(Errno::INVAL));
    assert_eq!(me.size(segment, 1), Err(Errno::INVAL));
    me.segment_remove(segment, &ROOT).unwrap();
    // A slot that was an object's serves a segment, and the other way round.
    me.unlink("data").unwrap();
    me.posix_shm_close(id).unwrap();
    for _ in 0..2 * pool.geometry().shmmni {
        let segment = me.segment(9, 1, CREATE).unwrap();
        assert_eq!(me.segment_stat(segment, &ROOT).map(|stat| stat.size), Ok(1));
        let object = me.open("next", NEW).unwrap();
        assert_eq!(me.posix_shm_stat(object).map(|stat| stat.size), Ok(0));
        me.segment_remove(segment, &ROOT).unwrap();
        me.unlink("next").unwrap();
        me.posix_shm_close(object).unwrap();
    }
    empty(&pool, &me);
}

#[test]
fn sizes_follow_ftruncate() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.open("data", NEW).unwrap();
    me.size(id, 10_000).unwrap();
    let stat = me.posix_shm_stat(id).unwrap();
    assert_eq!((stat.size, stat.capacity), (10_000, 12_288));
    assert_eq!(me.read(id, 0, 12_288), vec![0; 12_288]);
    me.write(id, 0, &[7; 10_000]);
    // What is cut off reads as zeros when it comes back, while it is attached as well.
    for attached in [false, true] {
        if attached {
            me.posix_shm_attach(id).unwrap();
        }
        me.size(id, 5000).unwrap();
        sound(&pool);
        me.size(id, 10_000).unwrap();
        assert_eq!(me.read(id, 0, 5000), [7; 5000]);
        assert_eq!(me.read(id, 5000, 7288), vec![0; 7288]);
        me.write(id, 5000, &[7; 5000]);
    }
    assert_eq!(me.posix_shm_stat(id).unwrap().attached, 1);
    me.size(id, 12_288).unwrap();
    assert_eq!(me.size(id, 12_289), Err(Errno::NOSPC));
    me.shmdt(id).unwrap();
    me.size(id, 20_000).unwrap();
    assert_eq!(me.read(id, 0, 10_000), [7; 10_000]);
    assert_eq!(me.read(id, 10_000, 10_480), vec![0; 10_480]);
    assert_eq!(me.size(id, 1 << 40), Err(Errno::NOSPC));
    assert_eq!(me.size(id, u64::MAX), Err(Errno::FBIG));
    assert_eq!(me.posix_shm_stat(id).unwrap().size, 20_000);
    sound(&pool);
    // Without a byte and not attached, it has no memory either.
    me.size(id, 0).unwrap();
    assert_eq!(room(&pool).pages_used, 0);
    sound(&pool);
    me.size(id, 4096).unwrap();
    assert_eq!(me.read(id, 0, 4096), [0; 4096]);
    assert_eq!(me.open("data", PosixOpen { truncate: true, ..BOTH }), Ok(id));
    assert_eq!(me.posix_shm_stat(id).unwrap().size, 0);
    me.unlink("data").unwrap();
    empty(&pool, &me);
}

#[test]
fn modes_are_those_of_a_file_in_a_sticky_directory() {
    let pool = pool();
    let me = join(&pool, 10);
    let backing = Zeroing(&pool);
    let open = |name: &str, how, user| me.posix_shm_open(name.as_bytes(), how, &user, &backing);
    let (owner, other) = (User(7), User(8));
    // The client that makes an object has it open, whatever its mode.
    let id = open("mine", PosixOpen { mode: 0, ..NEW }, owner).unwrap();
    assert_eq!(open("mine", READ, owner), Err(Errno::ACCESS));
    assert_eq!(open("mine", READ, ROOT), Ok(id));
    assert_eq!(me.posix_shm_set_mode(id, 0o604, &other), Err(Errno::PERM));
    me.posix_shm_set_mode(id, 0o7604, &owner).unwrap();
    assert_eq!(me.posix_shm_stat(id).unwrap().mode, 0o604);
    assert_eq!(open("mine", BOTH, owner), Ok(id));
    assert_eq!(open("mine", READ, other), Ok(id));
    assert_eq!(open("mine", BOTH, other), Err(Errno::ACCESS));
    let cut = PosixOpen { truncate: true, ..READ };
    assert_eq!(open("mine", cut, other), Err(Errno::ACCESS));
    assert_eq!(me.posix_shm_unlink(b"mine", &other), Err(Errno::ACCESS));
    assert_eq!(me.posix_shm_set_owner(id, Some(8), None, &owner), Err(Errno::PERM));
    assert_eq!(me.posix_shm_set_owner(id, None, Some(8), &owner), Err(Errno::PERM));
    me.posix_shm_set_owner(id, Some(7), Some(7), &owner).unwrap();
    me.posix_shm_set_owner(id, Some(8), Some(9), &ROOT).unwrap();
    let stat = me.posix_shm_stat(id).unwrap();
    assert_eq!((stat.uid, stat.gid), (8, 9));
    assert_eq!(me.posix_shm_unlink(b"mine", &owner), Err(Errno::ACCESS));
    me.posix_shm_unlink(b"mine", &other).unwrap();
    empty(&pool, &me);
}

#[test]
fn an_object_gets_another_name_in_one_step() {
    let pool = pool();
    let me = join(&pool, 10);
    let rename = |from: &str, to: &str, replaces, user| {
        me.posix_shm_rename(from.as_bytes(), to.as_bytes(), replaces, &user)
    };
    assert_eq!(rename("none", "b", true, ROOT), Err(Errno::NOENT));
    let (a, b) = (me.open("a", NEW).unwrap(), me.open("b", NEW).unwrap());
    me.size(a, 5000).unwrap();
    me.posix_shm_close(a).unwrap();
    assert_eq!(me.posix_shm_find(b"a"), Ok(a));
    assert_eq!(rename("a", "b", false, ROOT), Err(Errno::EXIST));
    assert_eq!(rename("a", "a", true, ROOT), Ok(()));
    me.posix_shm_set_owner(b, Some(7), Some(7), &ROOT).unwrap();
    assert_eq!(rename("b", "c", true, User(8)), Err(Errno::PERM));
    assert_eq!(rename("b", "a", true, User(7)), Err(Errno::PERM), "the other is root's");
    rename("a", "b", true, ROOT).unwrap();
    assert_eq!(me.posix_shm_find(b"a"), Err(Errno::NOENT));
    assert_eq!(me.posix_shm_find(b"b"), Ok(a));
    assert_eq!(me.posix_shm_name(a).unwrap(), b"b");
    assert!(!me.posix_shm_stat(b).unwrap().named, "open still, without a name");
    me.posix_shm_close(b).unwrap();
    rename("b", "c", false, ROOT).unwrap();
    sound(&pool);
    me.unlink("c").unwrap();
    empty(&pool, &me);
}

#[test]
fn what_is_extended_never_gets_shorter_and_has_room_for_more() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.open("data", NEW).unwrap();
    let extend = |bytes, spare| me.posix_shm_extend(id, bytes, spare, &Zeroing(me.pool()));
    let size = || me.posix_shm_stat(id).map(|stat| (stat.size, stat.capacity)).unwrap();
    extend(100, 0).unwrap();
    assert_eq!(size(), (100, 4096));
    me.write(id, 0, b"data");
    extend(5000, 8000).unwrap();
    assert_eq!(size(), (5000, 16384));
    assert_eq!(me.read(id, 0, 5), b"data\0");
    extend(4, 0).unwrap();
    assert_eq!(size(), (5000, 16384));
    extend(16384, 1 << 20).unwrap();
    assert_eq!(size(), (16384, 16384), "without moving");
    me.posix_shm_close(id).unwrap();
    me.unlink("data").unwrap();
    empty(&pool, &me);
}

#[test]
fn access_is_what_the_mode_says() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.open("data", PosixOpen { mode: 0o640, ..NEW }).unwrap();
    me.posix_shm_set_owner(id, Some(7), Some(7), &ROOT).unwrap();
    for (user, wanted, may) in [(7, 0, true), (7, 6, true), (7, 1, false), (8, 0, true)] {
        assert_eq!(me.posix_shm_access(id, wanted, &User(user)).is_ok(), may, "{user} {wanted}");
    }
    assert_eq!(me.posix_shm_access(id, 4, &User(8)), Err(Errno::ACCESS));
    assert_eq!(me.posix_shm_access(id, 6, &ROOT), Ok(()));
    assert_eq!(me.posix_shm_access(id, 1, &ROOT), Err(Errno::ACCESS), "nobody may");
    me.posix_shm_close(id).unwrap();
    me.unlink("data").unwrap();
    empty(&pool, &me);
}

#[test]
fn a_full_table_is_refused_and_leaves_nothing() {
    let pool = pool();
    let me = join(&pool, 10);
    let objects = pool.geometry().shmmni;
    for nth in 0..objects {
        me.open(&format!("n{nth}"), NEW).unwrap();
    }
    assert_eq!(me.open("more", NEW), Err(Errno::NOSPC));
    sound(&pool);
    for nth in 0..objects {
        me.unlink(&format!("n{nth}")).unwrap();
    }
    sound(&pool);
    empty(&pool, &me);
}

#[test]
fn who_dies_gives_up_its_descriptors() {
    let pool = pool();
    let (me, other) = (join(&pool, 10), join(&pool, 11));
    let id = me.open("data", NEW).unwrap();
    me.size(id, 4096).unwrap();
    assert_eq!(other.open("data", BOTH), Ok(id));
    other.posix_shm_keep(id).unwrap();
    other.posix_shm_attach(id).unwrap();
    me.unlink("data").unwrap();
    me.posix_shm_close(id).unwrap();
    let stat = me.posix_shm_stat(id).unwrap();
    assert_eq!((stat.opened, stat.attached), (2, 1));
    me.reap(other.client_id()).unwrap();
    assert_eq!(me.posix_shm_stat(id), Err(Errno::INVAL));
    empty(&pool, &me);
}

#[test]
fn an_exec_gives_up_mappings_and_keeps_descriptors() {
    let pool = pool();
    let before = join(&pool, 10);
    let kept = before.open("kept", NEW).unwrap();
    let closed = before.open("closed", NEW).unwrap();
    for id in [kept, closed] {
        before.size(id, 4096).unwrap();
        before.posix_shm_attach(id).unwrap();
    }
    before.unlink("kept").unwrap();
    before.unlink("closed").unwrap();
    let segment = before.segment(PRIVATE, 1, CREATE).unwrap();
    before.shmat(segment, true, false, &ROOT).unwrap();
    let suspended = before.suspend_attaches().unwrap();
    // The memory of an object may move while nobody has it attached.
    assert_eq!(before.posix_shm_stat(kept).unwrap().attached, 1);
    assert_eq!(before.segment_stat(segment, &ROOT).unwrap().attached, 0);
    before.resume_attaches(suspended, |_| panic!("nothing has gone"));
    assert_eq!(before.segment_stat(segment, &ROOT).unwrap().attached, 1);
    assert!(before.keeps_removed_segments());
    let after = join(&pool, 10);
    assert_eq!(after.client_slot(), before.client_slot());
    assert_eq!(after.segment_stat(segment, &ROOT).unwrap().attached, 0);
    for id in [kept, closed] {
        let stat = after.posix_shm_stat(id).unwrap();
        assert_eq!((stat.opened, stat.attached), (1, 0));
    }
    after.posix_shm_keep_only(&[(kept, 3)]).unwrap();
    assert_eq!(after.posix_shm_stat(kept).unwrap().opened, 3);
    assert_eq!(after.posix_shm_stat(closed), Err(Errno::INVAL));
    sound(&pool);
    after.segment_remove(segment, &ROOT).unwrap();
    empty(&pool, &after);
}

#[test]
fn a_child_has_the_descriptors_of_its_parent() {
    let pool = pool();
    let me = join(&pool, 10);
    let id = me.open("data", NEW).unwrap();
    me.size(id, 4096).unwrap();
    me.posix_shm_keep(id).unwrap();
    me.posix_shm_attach(id).unwrap();
    let child = me.reserve_child().unwrap();
    let stat = me.posix_shm_stat(id).unwrap();
    assert_eq!((stat.opened, stat.attached), (4, 2));
    me.cancel_child(child);
    let stat = me.posix_shm_stat(id).unwrap();
    assert_eq!((stat.opened, stat.attached), (2, 1));
    me.unlink("data").unwrap();
    empty(&pool, &me);
}

#[test]
fn of_those_who_make_one_name_one_does() {
    let pool = pool();
    let first = join(&pool, 10);
    std::thread::scope(|scope| {
        for pid in 0..4 {
            let pool = &pool;
            scope.spawn(move || {
                let me = join(pool, 20 + pid);
                for _ in 0..200 {
                    let id = me.open("raced", MAKE).unwrap();
                    me.size(id, 4096 * u64::from(pid + 1)).ok();
                    let _ = me.unlink("raced");
                    me.posix_shm_close(id).unwrap();
                }
            });
        }
    });
    sound(&pool);
    empty(&pool, &first);
}

#[test]
fn an_object_that_is_made_filled_is_never_seen_without() {
    let pool = pool();
    let me = join(&pool, 10);
    let map = pool.map();
    let fill = |at: u64| map.write(at, b"begun").map_err(|_| Errno::IO);
    let filled = |who: &Client, how| {
        let beginning = Beginning { bytes: 4096, fill: &fill };
        who.posix_shm_open_filled(b"filled", how, beginning, &ROOT, &Zeroing(who.pool()))
    };
    let refused = Beginning { bytes: 4096, fill: &|_| Err(Errno::PERM) };
    let made = me.posix_shm_open_filled(b"filled", NEW, refused, &ROOT, &Zeroing(&pool));
    assert_eq!(made, Err(Errno::PERM));
    let none = Beginning { bytes: 4096, fill: &fill };
    let made = me.posix_shm_open_filled(b"filled", BOTH, none, &ROOT, &Zeroing(&pool));
    assert_eq!(made, Err(Errno::NOENT));
    assert_eq!(room(&pool).pages_used, 0);
    std::thread::scope(|scope| {
        for pid in 0..3 {
            let (pool, filled) = (&pool, &filled);
            scope.spawn(move || {
                let me = join(pool, 20 + pid);
                for _ in 0..200 {
                    let id = filled(&me, MAKE).unwrap();
                    assert_eq!(me.posix_shm_stat(id).unwrap().size, 4096);
                    assert_eq!(me.read(id, 0, 6), b"begun\0");
                    let _ = me.unlink("filled");
                    me.posix_shm_close(id).unwrap();
                }
            });
        }
    });
    sound(&pool);
    let id = filled(&me, NEW).unwrap();
    assert_eq!(filled(&me, NEW), Err(Errno::EXIST));
    assert_eq!(filled(&me, MAKE), Ok(id));
    me.unlink("filled").unwrap();
    empty(&pool, &me);
}

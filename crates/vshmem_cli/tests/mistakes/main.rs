//! Typical mistakes: each is answered by one sentence that says what was found and proposes a
//! command that can be pasted, and by the right exit code. A table for each topic.

#[path = "../rig/mod.rs"]
mod rig;

mod bench;
mod devices;
mod files;
mod lab;
mod newcomer;
mod objects;
mod places;
mod pools;
mod programs;
mod row;
mod words;

#[test]
fn words_that_do_not_go_together() {
    row::check("words", words::ROWS);
}

#[test]
fn pools_that_cannot_be_made() {
    row::check("pools", pools::ROWS);
}

#[test]
fn files_that_are_no_pools() {
    row::check("files", files::ROWS);
}

#[test]
fn places_without_memory_or_permission() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: needs root to become somebody else and to mount");
        return;
    }
    row::check("places", places::ROWS);
}

#[test]
fn programs_that_cannot_run_on_a_pool() {
    row::check("programs", programs::ROWS);
}

#[test]
fn objects_domains_and_users_of_a_pool() {
    row::check("objects", objects::ROWS);
}

#[test]
fn devices_that_this_machine_has_not() {
    row::check("devices", devices::ROWS);
}

#[test]
fn mistakes_of_the_first_day() {
    row::check("newcomer", newcomer::ROWS);
}

#[test]
fn labs_that_are_not_there() {
    row::check("lab", lab::ROWS);
}

#[test]
fn measurements_that_cannot_be_taken() {
    row::check("bench", bench::ROWS);
}

#[test]
fn there_are_sixty_of_them() {
    let tables = [
        words::ROWS,
        pools::ROWS,
        files::ROWS,
        places::ROWS,
        programs::ROWS,
        objects::ROWS,
        devices::ROWS,
        lab::ROWS,
        bench::ROWS,
        newcomer::ROWS,
    ];
    assert!(tables.iter().map(|rows| rows.len()).sum::<usize>() >= 60);
}

/// A client of a pool, for the rows that need one (see [`rig::client`]).
#[test]
#[ignore = "started by other tests"]
fn client() {
    rig::client::be();
}

//! Acceptance on this machine alone: link local.

mod containers;
mod death;
mod hostile;
mod isolation;
mod refusal;
mod soak;
mod trust;
mod user;

use std::process::ExitCode;

use vshmem_acceptance::suite::{self, Test};

const TESTS: &[Test] = &[
    ("members_of_one_pool_see_nothing_of_another", isolation::matrix),
    ("a_pool_of_another_user_is_out_of_reach_by_path", isolation::paths),
    ("two_unprivileged_containers_are_two_domains", containers::two),
    ("a_full_pool_says_so_at_the_call", refusal::full),
    ("a_pool_that_cannot_be_used_says_so_at_the_call", refusal::unusable),
    ("modes_of_objects_hold_between_users", refusal::modes),
    ("a_limit_on_the_size_of_files_ends_no_program", trust::limited),
    ("a_private_pool_that_is_not_its_users_alone_is_refused_by_the_library", trust::private),
    ("a_forged_descriptor_of_an_object_is_of_no_use", trust::forged),
    ("a_descriptor_outlives_the_rights_that_it_was_opened_with", trust::kept),
    ("everything_works_without_root", user::all),
    ("a_program_that_gives_up_root_before_its_first_call_is_served", user::former_root),
    ("a_waker_killed_at_any_step_leaves_nobody_asleep", death::wakers),
    ("a_killed_process_gives_its_semaphore_to_a_waiter", death::process),
    ("an_agent_killed_alone_is_replaced", death::agent_alone),
    ("waiters_at_rest_wake_when_their_agent_ends_and_start_the_next", death::agent_of_many),
    ("an_agent_and_a_client_killed_together_leave_nobody_asleep", death::agent_and_client),
    ("a_domain_that_falls_silent_whole_is_evicted_where_the_pool_asks_for_it", containers::silent),
    ("a_member_that_scribbles_over_the_pool_crashes_nobody", hostile::scribbler),
    ("a_member_that_forges_locks_reaches_no_memory_of_a_program", hostile::forger),
    ("killed_at_random_nothing_is_lost", soak::soak),
];

fn main() -> ExitCode {
    suite::run(&[TESTS])
}

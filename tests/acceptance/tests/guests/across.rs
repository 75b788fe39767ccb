//! What is asked of two guests, whatever they are made of.

use vshmem_acceptance::suite::Test;

use crate::{death, exchange, idle, locks, objects, oracle, soak, step, top, users};

/// Those that begin with `core::` are what `make test` asks of User Mode Linux guests.
pub const TESTS: &[Test] = &[
    ("core::a_matrix_filled_in_one_guest_is_checked_in_the_other", exchange::matrix),
    ("core::a_semop_asleep_in_one_guest_is_released_from_the_other", exchange::semop),
    ("core::msgrcv_by_positive_and_negative_type_across_guests", exchange::types),
    ("core::ten_thousand_hand_overs_and_none_lost", exchange::hand_overs),
    ("a_hundred_thousand_messages_and_none_lost_doubled_or_reordered", exchange::flood),
    ("round_trips_are_measured_in_guests_that_are_up", exchange::round_trips),
    ("core::a_guest_and_the_host_exchange_on_one_pool", exchange::host_and_guest),
    ("core::a_killed_process_gives_its_semaphore_to_a_waiter_in_the_other_guest", death::process),
    ("an_agent_killed_alone_is_replaced", death::agent_alone),
    ("core::an_agent_and_a_client_killed_together_leave_nobody_asleep", death::agent_and_client),
    (
        "an_agent_and_the_last_client_killed_together_are_reaped_for_the_next_program",
        death::agent_and_last,
    ),
    ("a_waker_killed_at_any_step_leaves_nobody_asleep", step::wakers),
    ("core::a_killed_guest_gives_back_what_it_held_and_comes_again", death::guest),
    ("core::posix_locks_in_a_segment_work_across_guests", locks::exchange),
    ("core::a_killed_owner_of_a_robust_mutex_is_told_of_in_the_other_guest", locks::process),
    ("a_killed_guest_leaves_its_robust_mutex_to_the_other", locks::guest),
    ("stock_python_shares_memory_by_name_across_guests", objects::python),
    ("a_guest_behaves_as_its_own_kernel_does", oracle::probe),
    ("a_signal_handler_harms_no_string_function_of_its_program", oracle::strings),
    ("killed_at_random_in_two_guests_and_on_the_host_nothing_is_lost", soak::soak),
    ("any_user_of_a_guest_uses_its_pool_whichever_comes_first", users::all),
    ("a_guest_that_was_given_one_pool_takes_it_without_a_name", users::only_pool),
    ("top_counts_a_load_that_two_guests_share_within_two_per_cent", top::two_guests),
    ("idle_waiters_wake_seldom", idle::waiters),
];

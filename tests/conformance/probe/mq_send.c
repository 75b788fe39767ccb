/* mq_send(3) and mq_receive(3) that need not wait: order, sizes, limits, times, bad pointers. */
#include "mq.h"

static void take_all(mqd_t queue)
{
	while (mq_state(queue).mq_curmsgs > 0)
		say("%s", mq_taken(queue));
}

/* Sends a text of one letter for each priority, "a" first. */
static void order_of(long most, const unsigned *priorities, int count)
{
	mqd_t queue = mq_of(most, 16, O_NONBLOCK);
	for (int i = 0; i < count; i++) {
		char text[2] = { (char)('a' + i), 0 };
		int sent = mq_put(queue, text, priorities[i]);
		if (sent != 0)
			say("%s/%u: %s", text, priorities[i], got(sent));
	}
	say("%s", mq_described(queue));
	take_all(queue);
}

#define ORDER(name_, most_, ...)                                                       \
	CASE(mq_order_##name_)                                                         \
	{                                                                              \
		const unsigned priorities[] = { __VA_ARGS__ };                         \
		order_of(most_, priorities, sizeof priorities / sizeof *priorities);   \
	}

ORDER(of_one_priority, 10, 0, 0, 0, 0)
ORDER(of_one_high_priority, 10, 7, 7, 7)
ORDER(rising, 10, 0, 1, 2, 3, 4)
ORDER(falling, 10, 4, 3, 2, 1, 0)
ORDER(mixed, 10, 3, 1, 3, 2, 1, 2, 3, 1, 2)
ORDER(urgent_behind_usual, 10, 0, 0, 0, 32767)
ORDER(usual_behind_urgent, 10, 32767, 0, 0)
ORDER(between, 10, 5, 1, 3, 3, 0, 5)
ORDER(in_a_small_queue, 3, 0, 2, 1)
ORDER(in_a_full_small_queue, 3, 0, 2, 1, 9)
ORDER(in_a_queue_of_eight, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0)
ORDER(in_a_queue_of_nine, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
ORDER(in_a_queue_of_ten, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0)

CASE(mq_order_when_sent_and_received_by_turns)
{
	mqd_t queue = mq_of(10, 16, O_NONBLOCK);
	mq_put(queue, "a", 0);
	mq_put(queue, "b", 0);
	say("%s", mq_taken(queue));
	mq_put(queue, "c", 1);
	mq_put(queue, "d", 0);
	say("%s", mq_taken(queue));
	mq_put(queue, "e", 1);
	mq_put(queue, "f", 2);
	take_all(queue);
	mq_put(queue, "g", 0);
	mq_put(queue, "h", 0);
	take_all(queue);
}

CASE(mq_order_of_many)
{
	mqd_t queue = mq_of(10, 16, O_NONBLOCK);
	char text[16];
	unsigned seed = 7, bad = 0;
	for (int turn = 0; turn < 500; turn++) {
		unsigned last = 40000, priority;
		for (int i = 0; i < 10; i++) {
			seed = seed * 1103515245 + 12345;
			snprintf(text, sizeof text, "%d", i);
			bad += mq_put(queue, text, (seed >> 16) % 4) != 0;
		}
		int before = -1;
		for (int i = 0; i < 10; i++) {
			memset(text, 0, sizeof text);
			bad += mq_receive(queue, text, sizeof text, &priority) < 1;
			bad += priority > last || (priority == last && atoi(text) < before);
			last = priority;
			before = atoi(text);
		}
	}
	say("%u out of order, %s", bad, mq_described(queue));
}

CASE(mq_priorities_that_are_none)
{
	mqd_t queue = mq_of(10, 16, O_NONBLOCK);
	static const unsigned priorities[] = { 32767, 32768, 65535, UINT_MAX, INT_MAX };
	for (size_t i = 0; i < sizeof priorities / sizeof *priorities; i++)
		say("%u: %s", priorities[i], got(mq_put(queue, "a", priorities[i])));
	say("and no descriptor: %s", got(mq_send(-1, "a", 1, 32768)));
	take_all(queue);
}

CASE(mq_priority_is_not_asked_for)
{
	char text[16] = "";
	mqd_t queue = mq_of(10, 16, O_NONBLOCK);
	mq_put(queue, "low", 1);
	mq_put(queue, "high", 2);
	say("%s: %s", got(mq_receive(queue, text, sizeof text, NULL)), text);
}

/* ---- sizes ---- */

static void sizes_of(long most)
{
	static char text[16384], back[16384];
	const long sizes[] = { 0, 1, 7, 8, 9, 64, most - 1, most, most + 1, 16384 };
	mqd_t queue = mq_of(4, most, O_NONBLOCK);
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (char)(i * 31 >> 3);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		unsigned priority = 9;
		say("send %ld: %s", sizes[i], got(mq_send(queue, text, sizes[i], i % 2)));
		ssize_t bytes = mq_receive(queue, back, sizeof back, &priority);
		say("receive: %s/%u, %s", got(bytes), priority,
			bytes < 0 ? "" : memcmp(text, back, bytes) == 0 ? "the same" : "spoiled");
	}
}

CASE(mq_sizes_up_to_16) { sizes_of(16); }
CASE(mq_sizes_up_to_100) { sizes_of(100); }
CASE(mq_sizes_up_to_1000) { sizes_of(1000); }
CASE(mq_sizes_up_to_8192) { sizes_of(8192); }

CASE(mq_size_of_everything)
{
	mqd_t queue = mq_of(4, 16, O_NONBLOCK);
	say("%s", got(mq_send(queue, "a", SIZE_MAX, 0)));
	say("%s", got(mq_send(queue, "a", (size_t)1 << 32, 0)));
	say("%s", mq_described(queue));
}

CASE(mq_room_for_the_largest_is_needed)
{
	char text[64] = "";
	mqd_t queue = mq_of(4, 16, O_NONBLOCK);
	say("empty, too little: %s", got(mq_receive(queue, text, 15, NULL)));
	say("empty: %s", got(mq_receive(queue, text, 16, NULL)));
	mq_put(queue, "a", 0);
	say("too little: %s", got(mq_receive(queue, text, 15, NULL)));
	say("none: %s", got(mq_receive(queue, text, 0, NULL)));
	say("enough: %s", got(mq_receive(queue, text, 16, NULL)));
}

/* ---- limits ---- */

static void fill(long most)
{
	mqd_t queue = mq_of(most, 16, O_NONBLOCK);
	int sent = 0;
	while (sent < 100 && mq_put(queue, "a", 0) == 0)
		sent++;
	say("%d, then %s: %s", sent, got(-1), mq_described(queue));
	say("urgent: %s", got(mq_put(queue, "a", 5)));
	say("%s", mq_taken(queue));
	say("one more: %s", got(mq_put(queue, "b", 0)));
	say("two more: %s", got(mq_put(queue, "c", 0)));
	take_all(queue);
	say("%s: %s", mq_described(queue), mq_taken(queue));
}

CASE(mq_limit_1) { fill(1); }
CASE(mq_limit_2) { fill(2); }
CASE(mq_limit_7) { fill(7); }
CASE(mq_limit_8) { fill(8); }
CASE(mq_limit_9) { fill(9); }
CASE(mq_limit_10) { fill(10); }

CASE(mq_limit_counts_messages_and_not_bytes)
{
	static char large[8192];
	mqd_t queue = mq_of(10, 8192, O_NONBLOCK);
	int sent = 0;
	while (sent < 100 && mq_send(queue, large, sizeof large, 0) == 0)
		sent++;
	say("%d, then %s: %s", sent, got(-1), mq_described(queue));
}

/* ---- bad pointers ---- */

CASE(mq_send_what_cannot_be_read)
{
	mqd_t queue = mq_of(4, 16, O_NONBLOCK);
	say("%s", got(mq_send(queue, (char *)8, 16, 0)));
	say("of no bytes: %s", got(mq_send(queue, (char *)8, 0, 0)));
	say("too long: %s", got(mq_send(queue, (char *)8, 17, 0)));
	say("%s", mq_described(queue));
}

CASE(mq_receive_where_nobody_may_write)
{
	mqd_t queue = mq_of(4, 16, O_NONBLOCK);
	say("empty: %s", got(mq_receive(queue, (char *)8, 16, NULL)));
	mq_put(queue, "a", 0);
	mq_put(queue, "b", 0);
	say("%s", got(mq_receive(queue, (char *)8, 16, NULL)));
	say("%s", mq_described(queue));
}

/* ---- times ---- */

static const struct timespec invalid_times[] = {
	{ 0, -1 }, { 0, 1000000000 }, { -1, 0 }, { 4102444800, 1000000000 }, { -1, -1 },
};

CASE(mq_times_that_are_none)
{
	char text[16];
	mqd_t queue = mq_of(2, 16, 0);
	for (size_t i = 0; i < sizeof invalid_times / sizeof *invalid_times; i++) {
		const struct timespec *until = &invalid_times[i];
		say("send: %s", got(mq_timedsend(queue, "a", 1, 0, until)));
		say("receive: %s", got(mq_timedreceive(queue, text, 16, NULL, until)));
		say("no priority: %s", got(mq_timedsend(queue, "a", 1, 32768, until)));
		say("no descriptor: %s", got(mq_timedsend(-1, "a", 1, 0, until)));
	}
	say("%s", mq_described(queue));
}

CASE(mq_time_that_cannot_be_read)
{
	char text[16];
	mqd_t queue = mq_of(2, 16, 0);
	say("%s", got(mq_timedsend(queue, "a", 1, 0, (struct timespec *)8)));
	say("%s", got(mq_timedreceive(queue, text, 16, NULL, (struct timespec *)8)));
}

CASE(mq_time_that_has_passed_does_not_matter_where_nothing_is_awaited)
{
	char text[16];
	struct timespec past = { 1, 0 };
	mqd_t queue = mq_of(2, 16, 0);
	say("%s", got(mq_timedsend(queue, "a", 1, 0, &past)));
	say("%s", got(mq_timedsend(queue, "b", 1, 9, &past)));
	say("%s", got(mq_timedreceive(queue, text, 16, NULL, &past)));
	say("%s", got(mq_timedreceive(queue, text, 16, NULL, &past)));
}

CASE(mq_time_that_has_passed)
{
	char text[16];
	struct timespec past = { 1, 0 }, zero = { 0, 0 };
	mqd_t queue = mq_of(1, 16, 0);
	say("%s", got(mq_timedreceive(queue, text, 16, NULL, &past)));
	say("%s", got(mq_timedreceive(queue, text, 16, NULL, &zero)));
	mq_put(queue, "a", 0);
	say("%s", got(mq_timedsend(queue, "b", 1, 0, &past)));
	say("%s", got(mq_timedsend(queue, "b", 1, 3, &zero)));
}

CASE(mq_time_and_nonblock)
{
	char text[16];
	struct timespec past = { 1, 0 }, soon = mq_after(60000);
	mqd_t queue = mq_of(1, 16, O_NONBLOCK);
	say("%s", got(mq_timedreceive(queue, text, 16, NULL, &past)));
	say("%s", got(mq_timedreceive(queue, text, 16, NULL, &soon)));
	mq_put(queue, "a", 0);
	say("%s", got(mq_timedsend(queue, "b", 1, 0, &past)));
	say("%s", got(mq_timedsend(queue, "b", 1, 0, &soon)));
}

CASE(mq_time_passes)
{
	char text[16];
	struct timespec soon = mq_after(30);
	mqd_t queue = mq_of(1, 16, 0);
	say("%s", got(mq_timedreceive(queue, text, 16, NULL, &soon)));
	mq_put(queue, "a", 0);
	soon = mq_after(30);
	say("%s", got(mq_timedsend(queue, "b", 1, 0, &soon)));
	say("%s: %s", mq_described(queue), mq_taken(queue));
}

CASE(mq_time_is_none)
{
	char text[16] = "";
	struct timespec *volatile none = NULL;
	mqd_t queue = mq_of(1, 16, 0);
	say("%s", got(mq_timedsend(queue, "a", 1, 0, none)));
	say("%s: %s", got(mq_timedreceive(queue, text, 16, NULL, none)), text);
}

/* Descriptors of message queues, and what is asked of them: dup, fork, fcntl, poll, attributes. */
#include "mq.h"

#include <poll.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/time.h>

CASE(mq_descriptor_is_closed_on_exec)
{
	mqd_t queue = mq_of(4, 64, 0);
	say("%s", yes(fcntl(queue, F_GETFD) & FD_CLOEXEC));
}

CASE(mq_descriptor_says_what_it_was_opened_for)
{
	mqd_t both = mq_of(4, 64, O_NONBLOCK);
	mqd_t reads = mq_open(mq_last_name(), O_RDONLY), writes = mq_open(mq_last_name(), O_WRONLY);
	const mqd_t queues[] = { both, reads, writes };
	for (int i = 0; i < 3; i++)
		say("%o", fcntl(queues[i], F_GETFL) & (O_ACCMODE | O_NONBLOCK));
}

CASE(mq_descriptor_is_a_file)
{
	struct stat state;
	mqd_t queue = mq_of(4, 64, 0);
	say("%s", got(fstat(queue, &state)));
	say("regular: %s, mode %o", yes(S_ISREG(state.st_mode)), state.st_mode & 0777);
	say("mine: %s", yes(state.st_uid == geteuid()));
}

CASE(mq_duplicates_are_the_same)
{
	mqd_t queue = mq_of(4, 64, 0);
	mqd_t other = dup(queue);
	say("%s", got(mq_put(other, "by the other", 3)));
	mq_close(queue);
	say("%s", mq_taken(other));
	mq_unlink(mq_last_name());
	say("%s", mq_described(other));
}

CASE(mq_duplicates_share_nonblock)
{
	struct mq_attr wanted = { .mq_flags = O_NONBLOCK };
	mqd_t queue = mq_of(4, 64, 0);
	mqd_t other = dup(queue), opened = mq_open(mq_last_name(), O_RDWR);
	say("%s", got(mq_setattr(other, &wanted, NULL)));
	say("the first: %s", mq_taken(queue));
	say("%s", mq_described(queue));
	say("%s", mq_described(opened));
}

CASE(mq_fcntl_sets_nonblock)
{
	mqd_t queue = mq_of(1, 64, 0);
	say("%s", got(fcntl(queue, F_SETFL, O_NONBLOCK)));
	say("%s: %s", mq_described(queue), mq_taken(queue));
	say("%s", got(mq_put(queue, "a", 0)));
	say("%s", got(mq_put(queue, "b", 0)));
	say("%s", got(fcntl(queue, F_SETFL, 0)));
	say("%s", mq_described(queue));
}

/* O_NONBLOCK is set, and at some instruction a handler clears it: what comes of it, all ways to ask
 * agree on. A handler comes as another thread would. */
static mqd_t contested;
static volatile sig_atomic_t cleared;

static void clear_nonblock(int signal)
{
	(void)signal;
	fcntl(contested, F_SETFL, 0);
	cleared++;
}

CASE(mq_nonblock_cleared_by_a_handler_while_it_is_set)
{
	enum { TURNS = 4000 };
	int differ = 0;
	contested = mq_of(4, 64, 0);
	handle(SIGALRM, clear_nonblock, SA_RESTART);
	for (int turn = 0; turn < turns(TURNS); turn++) {
		struct itimerval soon = { .it_value.tv_usec = 1 + turn % 13 };
		setitimer(ITIMER_REAL, &soon, NULL);
		while (cleared == turn)
			fcntl(contested, F_SETFL, O_NONBLOCK);
		bool by_fcntl = fcntl(contested, F_GETFL) & O_NONBLOCK;
		differ += by_fcntl != !!(mq_state(contested).mq_flags & O_NONBLOCK);
	}
	say("%d differ", differ);
}

CASE(mq_attributes_change_nonblock_alone)
{
	mqd_t queue = mq_of(4, 64, 0);
	struct mq_attr wanted = { .mq_flags = O_NONBLOCK, .mq_maxmsg = 9, .mq_msgsize = 9 };
	struct mq_attr before;
	mq_put(queue, "a", 0);
	say("%s", got(mq_setattr(queue, &wanted, &before)));
	say("before: %ld of %ld x %ld, %lo", before.mq_curmsgs, before.mq_maxmsg, before.mq_msgsize,
		before.mq_flags);
	say("%s", mq_described(queue));
	wanted.mq_flags = 0;
	say("%s, then %s", got(mq_setattr(queue, &wanted, NULL)), mq_described(queue));
}

CASE(mq_attributes_with_another_flag)
{
	mqd_t queue = mq_of(4, 64, 0);
	static const long flags[] = { O_APPEND, O_NONBLOCK | 1, -1, 1L << 40 };
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		struct mq_attr wanted = { .mq_flags = flags[i] };
		say("%s, then %s", got(mq_setattr(queue, &wanted, NULL)), mq_described(queue));
	}
}

CASE(mq_attributes_without_a_place)
{
	mqd_t queue = mq_of(4, 64, 0);
	struct mq_attr before;
	struct mq_attr *volatile none = NULL;
	say("%s", got(mq_setattr(queue, none, &before)));
	say("%ld x %ld", before.mq_maxmsg, before.mq_msgsize);
	say("%s", got(mq_getattr(queue, (struct mq_attr *)8)));
	say("%s", got(mq_setattr(queue, (struct mq_attr *)8, NULL)));
}

static void try_descriptor(int file)
{
	struct mq_attr state = { 0 };
	struct sigevent none = { .sigev_notify = SIGEV_NONE };
	char text[64] = "";
	say("getattr: %s", got(mq_getattr(file, &state)));
	say("setattr: %s", got(mq_setattr(file, &state, NULL)));
	say("send: %s", got(mq_send(file, text, 1, 0)));
	say("receive: %s", got(mq_receive(file, text, sizeof text, NULL)));
	say("notify: %s", got(mq_notify(file, &none)));
	say("notify nobody: %s", got(mq_notify(file, NULL)));
}

CASE(mq_descriptor_of_nothing) { try_descriptor(-1); }
CASE(mq_descriptor_that_is_free) { try_descriptor(987); }
CASE(mq_descriptor_of_a_file) { try_descriptor(open("/dev/null", O_RDWR)); }

static void send_one(void *context)
{
	if (mq_put(*(mqd_t *)context, "from the child", 4) != 0)
		say("child: %s", got(-1));
}

CASE(mq_child_uses_its_parents)
{
	mqd_t queue = mq_of(4, 64, 0);
	say("%s", ended(finish(start(send_one, &queue))));
	say("%s", mq_taken(queue));
}

static void unlink_last(void *context)
{
	mqd_t queue = *(mqd_t *)context;
	char text[64];
	say("child: %s", got(mq_receive(queue, text, sizeof text, NULL)));
	say("child: %s", mq_described(queue));
}

CASE(mq_child_keeps_an_unlinked_queue)
{
	mqd_t queue = mq_of(4, 64, 0);
	pid_t child = start(unlink_last, &queue);
	await_asleep(child);
	mq_unlink(mq_last_name());
	mqd_t mine = dup(queue);
	mq_close(queue);
	mq_put(mine, "last", 0);
	mq_close(mine);
	say("%s", ended(finish(child)));
}

/* ---- readiness ---- */

static const char *ready(mqd_t queue, int milliseconds)
{
	static char answer[64];
	struct pollfd asked = { .fd = queue, .events = POLLIN | POLLOUT };
	int count = poll(&asked, 1, milliseconds);
	snprintf(answer, sizeof answer, "%d:%s%s%s", count, asked.revents & POLLIN ? " in" : "",
		asked.revents & POLLOUT ? " out" : "",
		asked.revents & ~(POLLIN | POLLOUT) ? " else" : "");
	return answer;
}

CASE(mq_poll_says_what_can_be_done)
{
	mqd_t queue = mq_of(2, 64, 0);
	say("empty: %s", ready(queue, 0));
	mq_put(queue, "a", 0);
	say("one: %s", ready(queue, 0));
	mq_put(queue, "b", 9);
	say("full: %s", ready(queue, 0));
	mq_taken(queue);
	say("one: %s", ready(queue, -1));
}

CASE(mq_poll_times_out)
{
	mqd_t queue = mq_of(2, 64, 0);
	struct pollfd asked = { .fd = queue, .events = POLLIN };
	say("%s", got(poll(&asked, 1, 30)));
}


CASE(mq_poll_waits_for_a_message)
{
	mqd_t queue = mq_of(2, 64, 0);
	int ends[2];
	if (pipe(ends) != 0)
		broken("pipe");
	struct pollfd asked[2] = { { .fd = ends[0], .events = POLLIN },
		{ .fd = queue, .events = POLLIN } };
	pid_t child = start(send_one, &queue);
	say("%s: %d %d", got(poll(asked, 2, -1)), asked[0].revents, asked[1].revents == POLLIN);
	finish(child);
	say("%s", mq_taken(queue));
	say("write: %s", got(write(ends[1], "x", 1)));
	say("%s: %d %d", got(poll(asked, 2, -1)), asked[0].revents == POLLIN, asked[1].revents);
}

CASE(mq_select_says_what_can_be_done)
{
	mqd_t queue = mq_of(2, 64, 0);
	fd_set reads, writes;
	for (int turn = 0; turn < 3; turn++) {
		struct timeval none = { 0 };
		FD_ZERO(&reads);
		FD_ZERO(&writes);
		FD_SET(queue, &reads);
		FD_SET(queue, &writes);
		int count = select(queue + 1, &reads, &writes, NULL, &none);
		say("%d: %d %d", count, FD_ISSET(queue, &reads), FD_ISSET(queue, &writes));
		if (turn < 2)
			mq_put(queue, "a", turn);
	}
}

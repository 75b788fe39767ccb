/* mq_send(3) and mq_receive(3) that wait: who is served, signals, the end of a waiter. */
#include "mq.h"

#include <pthread.h>

static mqd_t queue;

static void receive_one(void *context)
{
	(void)context;
	say("receiver: %s", mq_taken(queue));
}

static void send_text(void *context)
{
	int sent = mq_put(queue, context, 2);
	if (sent != 0)
		say("sender of %s: %s", (char *)context, got(sent));
}

CASE(mq_receiver_waits)
{
	queue = mq_of(4, 16, 0);
	pid_t child = start(receive_one, NULL);
	await_asleep(child);
	const char *sent = got(mq_put(queue, "a", 6));
	const char *end = ended(finish(child));
	say("%s; %s, %s", sent, end, mq_described(queue));
}

CASE(mq_receiver_waits_at_a_small_queue)
{
	queue = mq_of(1, 16, 0);
	pid_t child = start(receive_one, NULL);
	await_asleep(child);
	const char *sent = got(mq_put(queue, "a", 0));
	const char *end = ended(finish(child));
	say("%s; %s, %s", sent, end, mq_described(queue));
}

CASE(mq_sender_waits)
{
	queue = mq_of(1, 16, 0);
	mq_put(queue, "a", 0);
	pid_t child = start(send_text, "b");
	await_asleep(child);
	say("%s", mq_taken(queue));
	say("%s", ended(finish(child)));
	say("%s", mq_taken(queue));
}

CASE(mq_sender_waits_at_ten)
{
	queue = mq_of(10, 16, 0);
	for (int i = 0; i < 10; i++)
		mq_put(queue, "a", i % 2);
	pid_t child = start(send_text, "b");
	await_asleep(child);
	say("%s", mq_taken(queue));
	say("%s", ended(finish(child)));
	say("%s", mq_described(queue));
	for (int i = 0; i < 10; i++)
		say("%s", mq_taken(queue));
}

CASE(mq_receivers_are_served_in_turn)
{
	pid_t children[3];
	queue = mq_of(4, 16, 0);
	for (int i = 0; i < 3; i++) {
		children[i] = start(receive_one, NULL);
		await_asleep(children[i]);
	}
	static const char *const texts[] = { "first", "second", "third" };
	for (int i = 0; i < 3; i++) {
		mq_put(queue, texts[i], 3 - i);
		say("%s", ended(finish(children[i])));
	}
}

CASE(mq_senders_all_get_there)
{
	static char *const texts[] = { "b", "c", "d" };
	pid_t children[3];
	int seen = 0;
	queue = mq_of(1, 16, 0);
	mq_put(queue, "a", 0);
	for (int i = 0; i < 3; i++) {
		children[i] = start(send_text, texts[i]);
		await_asleep(children[i]);
	}
	for (int i = 0; i < 4; i++)
		seen |= 1 << (mq_taken(queue)[0] - 'a');
	for (int i = 0; i < 3; i++)
		say("%s", ended(finish(children[i])));
	say("%x, %s", seen, mq_described(queue));
}

/* ---- signals ---- */

static void receive_interrupted(void *context)
{
	handle(SIGUSR1, ignore_quietly, *(int *)context);
	say("receiver: %s", mq_taken(queue));
}

static void send_interrupted(void *context)
{
	handle(SIGUSR1, ignore_quietly, *(int *)context);
	say("sender: %s", got(mq_put(queue, "b", 0)));
}

static void receive_timed(void *context)
{
	char text[16] = "";
	struct timespec until = mq_after(60000);
	handle(SIGUSR1, ignore_quietly, *(int *)context);
	say("receiver: %s", got(mq_timedreceive(queue, text, 16, NULL, &until)));
}

CASE(mq_receiver_is_interrupted)
{
	int flags = 0;
	queue = mq_of(1, 16, 0);
	pid_t child = start(receive_interrupted, &flags);
	await_asleep(child);
	kill(child, SIGUSR1);
	say("%s", ended(finish(child)));
}

CASE(mq_sender_is_interrupted)
{
	int flags = 0;
	queue = mq_of(1, 16, 0);
	mq_put(queue, "a", 0);
	pid_t child = start(send_interrupted, &flags);
	await_asleep(child);
	kill(child, SIGUSR1);
	say("%s, %s", ended(finish(child)), mq_described(queue));
}

CASE(mq_timed_receiver_is_interrupted)
{
	int flags = 0;
	queue = mq_of(1, 16, 0);
	pid_t child = start(receive_timed, &flags);
	await_asleep(child);
	kill(child, SIGUSR1);
	say("%s", ended(finish(child)));
}

/* With SA_RESTART the call goes on. */
static void restart(role_fn *role, bool is_sender)
{
	int flags = SA_RESTART;
	queue = mq_of(1, 16, 0);
	if (is_sender)
		mq_put(queue, "a", 0);
	pid_t child = start(role, &flags);
	await_asleep(child);
	kill(child, SIGUSR1);
	await_asleep(child);
	const char *taken = is_sender ? mq_taken(queue) : got(mq_put(queue, "a", 0));
	say("%s", ended(finish(child)));
	say("%s, %s", taken, mq_described(queue));
}

CASE(mq_receiver_goes_on_after_a_handler) { restart(receive_interrupted, false); }
CASE(mq_sender_goes_on_after_a_handler) { restart(send_interrupted, true); }
CASE(mq_timed_receiver_goes_on_after_a_handler) { restart(receive_timed, false); }

/* A handler that makes the call possible, and returns when the call has no time left. If it had
 * none left when the handler began, the handler does nothing: the child ends with TOO_LATE. */
enum { TOO_LATE = 2 };
static struct timespec no_time_left;
static const char *(*do_meanwhile)(void);
static const char *done_meanwhile;
static volatile sig_atomic_t is_handled;

static const char *send_meanwhile(void) { return got(mq_put(queue, "meanwhile", 1)); }

static const char *receive_meanwhile(void) { return mq_taken(queue); }

static bool has_time_left(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec < no_time_left.tv_sec
		|| (now.tv_sec == no_time_left.tv_sec && now.tv_nsec < no_time_left.tv_nsec);
}

static void run_out_of_time(int signal)
{
	(void)signal;
	if (has_time_left())
		done_meanwhile = do_meanwhile();
	while (has_time_left())
		;
	is_handled = true;
}

static void await_handler(void)
{
	while (!is_handled)
		usleep(1000);
	if (!done_meanwhile)
		_exit(TOO_LATE);
}

static void receive_out_of_time(void *context)
{
	char text[16] = "";
	do_meanwhile = send_meanwhile;
	no_time_left = mq_after(*(long *)context);
	handle(SIGUSR1, run_out_of_time, SA_RESTART);
	const char *received = got(mq_timedreceive(queue, text, 16, NULL, &no_time_left));
	await_handler();
	say("receiver: %s, %s; meanwhile %s", received, text, done_meanwhile);
}

static void send_out_of_time(void *context)
{
	do_meanwhile = receive_meanwhile;
	no_time_left = mq_after(*(long *)context);
	handle(SIGUSR1, run_out_of_time, SA_RESTART);
	const char *sent = got(mq_timedsend(queue, "b", 2, 0, &no_time_left));
	await_handler();
	say("sender: %s; meanwhile %s", sent, done_meanwhile);
}

/* Again with twice the time, until the child's call sleeps when the signal comes. */
static void run_out(role_fn *role)
{
	int status;
	long milliseconds = 250;
	do {
		pid_t child = start(role, &milliseconds);
		await_asleep(child);
		kill(child, SIGUSR1);
		status = finish(child);
		milliseconds *= 2;
	} while (WIFEXITED(status) && WEXITSTATUS(status) == TOO_LATE);
	say("%s", ended(status));
	say("%s", mq_described(queue));
}

CASE(mq_timed_receiver_looks_again_after_a_handler_that_took_its_time)
{
	queue = mq_of(1, 16, 0);
	run_out(receive_out_of_time);
}

CASE(mq_timed_sender_looks_again_after_a_handler_that_took_its_time)
{
	queue = mq_of(1, 16, 0);
	mq_put(queue, "a", 0);
	run_out(send_out_of_time);
}

/* ---- the end of a waiter ---- */

CASE(mq_receiver_is_killed)
{
	queue = mq_of(4, 16, 0);
	pid_t child = start(receive_one, NULL);
	await_asleep(child);
	stop_by(child, SIGKILL);
	say("%s", got(mq_put(queue, "a", 0)));
	say("%s: %s", mq_described(queue), mq_taken(queue));
}

CASE(mq_sender_is_killed)
{
	queue = mq_of(1, 16, 0);
	mq_put(queue, "a", 0);
	pid_t child = start(send_text, "b");
	await_asleep(child);
	stop_by(child, SIGKILL);
	say("%s, %s", mq_taken(queue), mq_described(queue));
}

static void *receive_in_thread(void *context)
{
	(void)context;
	char text[16];
	mq_receive(queue, text, sizeof text, NULL);
	return NULL;
}

CASE(mq_receiver_is_cancelled)
{
	pthread_t thread;
	void *result = NULL;
	queue = mq_of(4, 16, 0);
	pthread_create(&thread, NULL, receive_in_thread, NULL);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	say("cancelled: %s", yes(result == PTHREAD_CANCELED));
	mq_put(queue, "a", 0);
	say("%s", mq_taken(queue));
}

static void close_soon(void *context)
{
	(void)context;
	mq_close(queue);
}

CASE(mq_child_that_closes_ends_nothing)
{
	queue = mq_of(4, 16, 0);
	mq_put(queue, "a", 0);
	say("%s", ended(finish(start(close_soon, NULL))));
	say("%s", mq_taken(queue));
}

/* A stream through a queue, in order and complete. */
static void send_stream(void *context)
{
	(void)context;
	char text[16];
	for (int i = 0; i < turns(3000); i++) {
		snprintf(text, sizeof text, "%d", i);
		if (mq_put(queue, text, 0) != 0)
			say("%d: %s", i, got(-1));
	}
}

static void stream(long most)
{
	char text[16];
	int bad = 0;
	queue = mq_of(most, 16, 0);
	pid_t child = start(send_stream, NULL);
	for (int i = 0; i < turns(3000); i++) {
		memset(text, 0, sizeof text);
		bad += mq_receive(queue, text, sizeof text, NULL) < 1 || atoi(text) != i;
	}
	say("%d out of order, %s, %s", bad, ended(finish(child)), mq_described(queue));
}

CASE(mq_stream_of_1) { stream(1); }
CASE(mq_stream_of_3) { stream(3); }
CASE(mq_stream_of_8) { stream(8); }
CASE(mq_stream_of_10) { stream(10); }

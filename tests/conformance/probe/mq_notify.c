/* mq_notify(3): who is told of the first message, how, and when no more. */
#include "mq.h"

#include <pthread.h>

static mqd_t queue;
static volatile sig_atomic_t told;
static siginfo_t notice;

static void tell(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	notice = *info;
	told++;
}

static void catch_notices(void)
{
	struct sigaction action = { .sa_sigaction = tell, .sa_flags = SA_SIGINFO };
	sigaction(SIGUSR2, &action, NULL);
}

static int ask(int kind, int signal, int value)
{
	struct sigevent wanted = { .sigev_notify = kind, .sigev_signo = signal };
	wanted.sigev_value.sival_int = value;
	return mq_notify(queue, &wanted);
}

/* Waits until a notice has come: that of another process's message comes some time later. */
static void await_notice(int count)
{
	for (int i = 0; i < 5000 && told < count; i++)
		usleep(1000);
}

CASE(mq_notify_by_signal)
{
	catch_notices();
	queue = mq_of(4, 16, O_NONBLOCK);
	say("%s", got(ask(SIGEV_SIGNAL, SIGUSR2, 4711)));
	mq_put(queue, "a", 0);
	await_notice(1);
	say("%d: signal of mq: %s, code %s, value %d", told, yes(notice.si_signo == SIGUSR2),
		yes(notice.si_code == SI_MESGQ), notice.si_value.sival_int);
	say("by %s", who(notice.si_pid, -1));
	say("%s", mq_taken(queue));
}

CASE(mq_notify_signal_of_an_own_message_is_there_at_once)
{
	catch_notices();
	queue = mq_of(4, 16, O_NONBLOCK);
	for (int turn = 0; turn < 20; turn++) {
		ask(SIGEV_SIGNAL, SIGUSR2, turn);
		mq_put(queue, "a", turn % 2);
		if (told != turn + 1 || notice.si_value.sival_int != turn)
			say("turn %d: told %d times, value %d", turn, told,
				notice.si_value.sival_int);
		mq_put(queue, "b", 0);
		mq_taken(queue);
		mq_taken(queue);
	}
	say("%d", told);
}

static void send_one(void *context)
{
	(void)context;
	mq_put(queue, "by the child", 3);
}

CASE(mq_notify_says_who_has_sent)
{
	catch_notices();
	queue = mq_of(4, 16, O_NONBLOCK);
	ask(SIGEV_SIGNAL, SIGUSR2, 1);
	pid_t child = start(send_one, NULL);
	finish(child);
	await_notice(1);
	say("%d, by %s", told, who(notice.si_pid, child));
}

CASE(mq_notify_is_for_once)
{
	catch_notices();
	queue = mq_of(4, 16, O_NONBLOCK);
	ask(SIGEV_SIGNAL, SIGUSR2, 1);
	mq_put(queue, "a", 0);
	await_notice(1);
	mq_taken(queue);
	mq_put(queue, "b", 0);
	mq_taken(queue);
	say("%d", told);
	say("again: %s", got(ask(SIGEV_SIGNAL, SIGUSR2, 2)));
	mq_put(queue, "c", 0);
	await_notice(2);
	say("%d, value %d", told, notice.si_value.sival_int);
}

CASE(mq_notify_only_of_the_first)
{
	catch_notices();
	queue = mq_of(4, 16, O_NONBLOCK);
	mq_put(queue, "a", 0);
	say("%s", got(ask(SIGEV_SIGNAL, SIGUSR2, 1)));
	mq_put(queue, "b", 5);
	mq_taken(queue);
	mq_taken(queue);
	say("%d", told);
	mq_put(queue, "c", 0);
	await_notice(1);
	say("%d", told);
}

static void receive_one(void *context)
{
	(void)context;
	char text[16];
	mq_receive(queue, text, sizeof text, NULL);
}

CASE(mq_notify_not_of_what_a_receiver_takes)
{
	catch_notices();
	queue = mq_of(4, 16, 0);
	pid_t child = start(receive_one, NULL);
	await_asleep(child);
	say("%s", got(ask(SIGEV_SIGNAL, SIGUSR2, 1)));
	mq_put(queue, "a", 0);
	say("%s: %d", ended(finish(child)), told);
	mq_put(queue, "b", 0);
	await_notice(1);
	say("%d", told);
}

CASE(mq_notify_of_urgent_messages)
{
	catch_notices();
	queue = mq_of(4, 16, 0);
	ask(SIGEV_SIGNAL, SIGUSR2, 1);
	mq_put(queue, "a", 32767);
	await_notice(1);
	say("%d: %s", told, mq_taken(queue));
}

CASE(mq_notify_one_at_a_time)
{
	catch_notices();
	queue = mq_of(4, 16, 0);
	mqd_t other = mq_of(4, 16, 0);
	say("%s", got(ask(SIGEV_SIGNAL, SIGUSR2, 1)));
	say("again: %s", got(ask(SIGEV_SIGNAL, SIGUSR2, 2)));
	say("and silently: %s", got(ask(SIGEV_NONE, 0, 0)));
	queue = other;
	say("of another queue: %s", got(ask(SIGEV_SIGNAL, SIGUSR2, 3)));
}

static void ask_too(void *context)
{
	(void)context;
	say("child: %s", got(ask(SIGEV_NONE, 0, 0)));
	say("child takes back: %s", got(mq_notify(queue, NULL)));
	say("child: %s", got(ask(SIGEV_NONE, 0, 0)));
}

CASE(mq_notify_one_of_all_processes)
{
	queue = mq_of(4, 16, 0);
	ask(SIGEV_NONE, 0, 0);
	say("%s", ended(finish(start(ask_too, NULL))));
	mq_notify(queue, NULL);
	say("%s", ended(finish(start(ask_too, NULL))));
}

CASE(mq_notify_ends_with_its_process)
{
	queue = mq_of(4, 16, 0);
	say("%s", ended(finish(start(ask_too, NULL))));
	say("%s", got(ask(SIGEV_NONE, 0, 0)));
}

CASE(mq_notify_taken_back)
{
	catch_notices();
	queue = mq_of(4, 16, 0);
	say("none: %s", got(mq_notify(queue, NULL)));
	ask(SIGEV_SIGNAL, SIGUSR2, 1);
	say("%s", got(mq_notify(queue, NULL)));
	mq_put(queue, "a", 0);
	mq_taken(queue);
	say("%d", told);
	say("again: %s", got(ask(SIGEV_SIGNAL, SIGUSR2, 1)));
}

CASE(mq_notify_ends_with_any_descriptor)
{
	catch_notices();
	queue = mq_of(4, 16, 0);
	mqd_t other = mq_open(mq_last_name(), O_RDWR);
	ask(SIGEV_SIGNAL, SIGUSR2, 1);
	mq_close(other);
	mq_put(queue, "a", 0);
	mq_taken(queue);
	say("%d", told);
	say("again: %s", got(ask(SIGEV_SIGNAL, SIGUSR2, 1)));
}

CASE(mq_notify_nobody_and_silently)
{
	queue = mq_of(4, 16, O_NONBLOCK);
	say("%s", got(ask(SIGEV_NONE, 0, 0)));
	say("%s", got(ask(SIGEV_NONE, 0, 0)));
	mq_put(queue, "a", 0);
	for (int i = 0; i < 5000 && ask(SIGEV_NONE, 0, 0) != 0; i++)
		usleep(1000);
	say("after the first: %s", got(mq_notify(queue, NULL)));
}

CASE(mq_notify_in_ways_there_are_not)
{
	queue = mq_of(4, 16, 0);
	say("kind 3: %s", got(ask(3, SIGUSR2, 0)));
	say("kind 77: %s", got(ask(77, SIGUSR2, 0)));
	say("signal 0: %s", got(ask(SIGEV_SIGNAL, 0, 0)));
	mq_notify(queue, NULL);
	say("signal 64: %s", got(ask(SIGEV_SIGNAL, 64, 0)));
	mq_notify(queue, NULL);
	say("signal 65: %s", got(ask(SIGEV_SIGNAL, 65, 0)));
	say("signal -1: %s", got(ask(SIGEV_SIGNAL, -1, 0)));
}

static void *from_thread;
static volatile int in_another;

static void run_in_thread(union sigval value)
{
	from_thread = value.sival_ptr;
	in_another = (pid_t)gettid() != getpid();
	told++;
}

CASE(mq_notify_by_thread)
{
	int place;
	struct sigevent wanted = { .sigev_notify = SIGEV_THREAD };
	wanted.sigev_notify_function = run_in_thread;
	wanted.sigev_value.sival_ptr = &place;
	queue = mq_of(4, 16, 0);
	say("%s", got(mq_notify(queue, &wanted)));
	say("again: %s", got(mq_notify(queue, &wanted)));
	mq_put(queue, "a", 0);
	await_notice(1);
	say("%d, with the value: %s, in another thread: %s", told, yes(from_thread == &place),
		yes(in_another));
	mq_taken(queue);
	say("once more: %s", got(mq_notify(queue, &wanted)));
	mq_put(queue, "b", 0);
	await_notice(2);
	say("%d", told);
}

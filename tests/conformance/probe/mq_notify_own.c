/* mq_notify(3): the signal of a message that the process sends itself is there when mq_send
 * returns, whatever else is registered, and by which thread. */
#include "mq.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static mqd_t queue, other;
static volatile sig_atomic_t told;
static atomic_bool is_over;

static void tell(int signal)
{
	(void)signal;
	told++;
}

static int ask(mqd_t of, int kind, int signal)
{
	struct sigevent wanted = { .sigev_notify = kind, .sigev_signo = signal };
	return mq_notify(of, &wanted);
}

static void make_both(void)
{
	handle(SIGUSR2, tell, 0);
	queue = mq_of(4, 16, O_NONBLOCK);
	other = mq_of(4, 16, O_NONBLOCK);
}

/* Messages whose notice is no signal: the runner ends a case that waits for one. */
static void send_to_the_silent(void)
{
	int sent = 0;
	for (int turn = 0; turn < 60; turn++) {
		while (ask(other, SIGEV_NONE, 0) != 0)
			sched_yield();
		sent += mq_put(other, "a", 0) == 0;
		mq_taken(other);
	}
	say("%d sent, told %d times", sent, told);
}

CASE(mq_notify_silently_beside_a_queue_with_a_signal)
{
	make_both();
	say("%s", got(ask(queue, SIGEV_SIGNAL, SIGUSR2)));
	send_to_the_silent();
	mq_put(queue, "a", 0);
	say("%d", told);
}

static void send_in_child(void *context)
{
	(void)context;
	send_to_the_silent();
}

CASE(mq_notify_silently_in_a_child_whose_parent_awaits_a_signal)
{
	make_both();
	say("%s", got(ask(queue, SIGEV_SIGNAL, SIGUSR2)));
	say("%s", ended(finish(start(send_in_child, NULL))));
	say("%d", told);
}

/* A thread of this process that takes no SIGUSR2. */
static pthread_t beside(void *(*role)(void *))
{
	pthread_t thread;
	sigset_t its;
	sigemptyset(&its);
	sigaddset(&its, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &its, NULL);
	if (pthread_create(&thread, NULL, role, NULL) != 0)
		broken("a thread");
	pthread_sigmask(SIG_UNBLOCK, &its, NULL);
	return thread;
}

static void *send_to_the_other(void *context)
{
	(void)context;
	while (!is_over)
		if (ask(other, SIGEV_SIGNAL, SIGUSR1) == 0) {
			mq_put(other, "a", 0);
			mq_taken(other);
		}
	return NULL;
}

/* How often the signal of a message is late, while a thread does `role`. `await` returns when the
 * queue's notice is asked for. */
static void count_late(void *(*role)(void *), void (*await)(int turn))
{
	enum { TURNS = 1000 };
	int late = 0;
	make_both();
	handle(SIGUSR1, ignore_quietly, SA_RESTART);
	pthread_t thread = beside(role);
	for (int turn = 0; turn < turns(TURNS); turn++) {
		await(turn);
		mq_put(queue, "a", 0);
		late += told != turn + 1;
		mq_taken(queue);
	}
	is_over = true;
	pthread_join(thread, NULL);
	say("%d late", late);
}

static void ask_here(int turn)
{
	(void)turn;
	while (ask(queue, SIGEV_SIGNAL, SIGUSR2) != 0)
		sched_yield();
}

CASE(mq_notify_signal_beside_those_of_another_queue) { count_late(send_to_the_other, ask_here); }

static atomic_int registered;

static void *register_anew(void *context)
{
	(void)context;
	while (!is_over)
		if (ask(queue, SIGEV_SIGNAL, SIGUSR2) == 0)
			registered++;
	return NULL;
}

static void await_registered(int turn)
{
	while (registered == turn)
		sched_yield();
}

CASE(mq_notify_signal_while_a_thread_registers_anew)
{
	count_late(register_anew, await_registered);
}

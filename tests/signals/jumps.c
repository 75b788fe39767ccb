/* A handler that leaves a blocking call by siglongjmp(3), as programs do that know no other
 * timeout: a thousand times, from the stack of the program and from one of the handler's own. On a
 * kernel nothing is left of such a call. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/time.h>
#include <unistd.h>

#include "fail.h"

enum { ROUNDS = 1000, STACK = 64 << 10 };

static sigjmp_buf back;

static void leave(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

static void timer(int microseconds)
{
	struct itimerval once = { { 0, 0 }, { 0, microseconds } };
	setitimer(ITIMER_REAL, &once, NULL);
}

static void leave_again_and_again(int set, int queue)
{
	struct sembuf take = { 0, -1, 0 };
	struct {
		long type;
		char text[8];
	} message;
	for (volatile int round = 0; round < ROUNDS; round++) {
		if (sigsetjmp(back, 1) != 0)
			continue;
		timer(200);
		if (round % 2)
			semop(set, &take, 1);
		else
			msgrcv(queue, &message, sizeof(message.text), 0, 0);
		timer(0);
		fail("a call that should have been left has ended");
	}
}

int main(void)
{
	int set = semget(IPC_PRIVATE, 1, 0600), queue = msgget(IPC_PRIVATE, 0600);
	if (set == -1 || queue == -1)
		fail("a set and a queue");
	for (int own = 0; own < 2; own++) {
		struct sigaction action = { .sa_handler = leave, .sa_flags = own ? SA_ONSTACK : 0 };
		stack_t stack = { .ss_sp = malloc(STACK), .ss_size = STACK };
		if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGALRM, &action, NULL) != 0)
			fail("a handler");
		leave_again_and_again(set, queue);
	}
	struct sembuf give = { 0, 1, 0 }, take = { 0, -1, IPC_NOWAIT };
	if (semctl(set, 0, GETNCNT) != 0 || semop(set, &give, 1) != 0 || semop(set, &take, 1) != 0)
		fail("no thread waits, and what is given can be taken");
	semctl(set, 0, IPC_RMID);
	msgctl(queue, IPC_RMID, NULL);
	return 0;
}

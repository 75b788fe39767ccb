/*
 * A signal handler that uses the string functions which the program is in the middle of using:
 *   strings SIGNALS     says how many signals were handled, and how many answers were wrong
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *volatile mine = "mine";
static const char *volatile handlers = "from the handler";
static volatile sig_atomic_t handled, wrong;

static void use_in_handler(int signal)
{
	(void)signal;
	handled++;
	wrong += strlen(handlers) != 16;
}

int main(int argc, char **argv)
{
	int signals = argc > 1 ? atoi(argv[1]) : 1000;
	struct sigaction action = { .sa_handler = use_in_handler };
	sigaction(SIGALRM, &action, NULL);
	const struct itimerspec often = { { 0, 100000 }, { 0, 100000 } };
	timer_t timer;
	if (timer_create(CLOCK_MONOTONIC, NULL, &timer) != 0 ||
	    timer_settime(timer, 0, &often, NULL) != 0) {
		perror("strings: a timer");
		return 1;
	}
	while (handled < signals)
		wrong += strlen(mine) != 4;
	timer_delete(timer);
	printf("%d handled, %d wrong\n", (int)handled, (int)wrong);
	return wrong != 0;
}

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"

void give_up_creating(const char *call)
{
	if (errno == ENOSPC)
		give_up("%s: no room for one more object. Of the kernel: kernel.sem, kernel.msgmni or kernel.shmmni is too low "
			"(sysctl). Of a pool: it is too small, or was made with too low a --limit",
			call);
	give_up_call(call);
}

uint64_t cpu_ns(void)
{
	struct timespec spent;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
	return (uint64_t)spent.tv_sec * 1000000000u + (uint64_t)spent.tv_nsec;
}

static uint64_t in_ns(struct timeval time)
{ return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_usec * 1000u; }

uint64_t cpu_ns_of_children(void)
{
	struct rusage spent;
	getrusage(RUSAGE_CHILDREN, &spent);
	return in_ns(spent.ru_utime) + in_ns(spent.ru_stime);
}

void crowd_prepare(struct crowd *crowd)
{
	crowd->size = 0;
	if (pipe(crowd->gate) != 0 || pipe(crowd->arrivals) != 0)
		give_up_call("pipe");
}

bool crowd_enlarge(struct crowd *crowd)
{
	pid_t child = fork();
	if (child == -1)
		give_up("fork of process %ld failed: %s. A pool has room for as many processes as it was made for (--limit clients=N)",
			crowd->size + 1, strerror(errno));
	if (child != 0) {
		crowd->size++;
		return false;
	}
	on_failure = NULL; /* the objects are the parent's to remove */
	close(crowd->gate[1]);
	close(crowd->arrivals[0]);
	return true;
}

void arrive(struct crowd *crowd)
{
	char byte = 0;
	if (write(crowd->arrivals[1], &byte, 1) != 1)
		give_up_call("write to the parent");
	close(crowd->arrivals[1]);
	ssize_t got;
	while ((got = read(crowd->gate[0], &byte, 1)) == -1 && errno == EINTR && !deadline_passed)
		;
	if (got != 0)
		give_up_call("read at the gate");
	close(crowd->gate[0]);
}

void crowd_await(struct crowd *crowd)
{
	close(crowd->arrivals[1]);
	char bytes[64];
	for (long arrived = 0; arrived < crowd->size;) {
		ssize_t got = read(crowd->arrivals[0], bytes, sizeof bytes);
		if (got == -1 && errno == EINTR && !deadline_passed)
			continue;
		if (got <= 0)
			give_up("%ld of %ld processes arrived", arrived, crowd->size);
		arrived += got;
	}
	close(crowd->arrivals[0]);
}

void crowd_release(struct crowd *crowd)
{
	close(crowd->gate[0]);
	close(crowd->gate[1]);
}

void crowd_end(struct crowd *crowd) { crowd_end_some(crowd, crowd->size); }

void crowd_end_some(struct crowd *crowd, long number)
{
	long rest = crowd->size - number;
	for (int status; crowd->size > rest;) {
		if (wait(&status) == -1) {
			if (errno == EINTR && !deadline_passed)
				continue;
			give_up_call("wait");
		}
		crowd->size--;
		if (status != 0)
			give_up("one of the processes failed (wait status 0x%x)", (unsigned)status);
	}
}

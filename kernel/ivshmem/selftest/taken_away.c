// SPDX-License-Identifier: GPL-2.0
/* The device is taken away by others while something of it is held: selftest/run does that. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "selftest.h"

static sigjmp_buf out;

static void on_bus_error(int number)
{
	(void)number;
	siglongjmp(out, 1);
}

/* Registers, and ends at once, or when the writing end of its pipe is closed. */
static pid_t start_registered(int file, const int *until)
{
	pid_t child = fork();
	char byte;

	if (child)
		return child;
	if (ioctl(file, VSHMEM_REGISTER))
		_exit(1);
	if (until) {
		close(until[1]);
		if (read(until[0], &byte, 1) != 0)
			_exit(1);
	}
	_exit(0);
}

/* Waits for a word of the memory until that is taken away. */
static pid_t start_waiting(int file)
{
	struct vshmem_wait wait = { .offset = 0, .value = 7, .timeout_ns = -1 };
	pid_t child = fork();

	if (!child)
		_exit(ioctl(file, VSHMEM_WAIT, &wait) < 0 && errno == ENODEV ? 0 : 1);
	while (!sleeps(child))
		sched_yield();
	return child;
}

static int says_it_is_gone(int file)
{
	struct pollfd look = { .fd = file, .events = POLLIN };

	EXPECT(ioctl(file, VSHMEM_INFO, &info) < 0 && errno == ENODEV);
	EXPECT(ioctl(file, VSHMEM_REGISTER) < 0 && errno == ENODEV);
	EXPECT(poll(&look, 1, -1) == 1 && (look.revents & POLLHUP));
	EXPECT(map_part(file, 0, PAGE) == MAP_FAILED && errno == ENODEV);
	return 0;
}

/*
 * Held open and mapped while the device is taken away by others: SIGBUS, ENODEV, and nothing worse.
 * With the end of a process that nobody has asked for, and one that ends later.
 */
int holds_on(void)
{
	int file = open_device(), until[2];
	volatile uint32_t *memory = map_part(file, 0, info.bytes);
	pid_t waiting = 0, late;

	EXPECT(memory != MAP_FAILED && pipe(until) == 0);
	EXPECT(ioctl(file, VSHMEM_REGISTER) == 0);
	EXPECT(outcome(start_registered(file, NULL)) == 0);
	late = start_registered(file, until);
	signal(SIGBUS, on_bus_error);
	memory[0] = 7;
	if (info.features & VSHMEM_CAN_RING)
		waiting = start_waiting(file);
	while (!sleeps(late))
		sched_yield();
	printf("holding\n");
	fflush(stdout);
	if (!sigsetjmp(out, 1))
		for (;;) {
			size_t i;

			for (i = 0; i < info.bytes / 4; i += 1024)
				(void)memory[i];
		}
	EXPECT(says_it_is_gone(file) == 0);
	close(until[1]);
	EXPECT(outcome(late) == 0);
	if (waiting)
		EXPECT(outcome(waiting) == 0);
	munmap((void *)memory, info.bytes);
	close(file);
	return 0;
}

/* A page of the memory lies in a pipe while the device is taken away: it is read when told to. */
int lends_a_page(void)
{
	int file = open_device(), pipes[2];
	uint8_t *memory = map_part(file, 0, PAGE), copy[64];
	struct iovec there = { memory, sizeof(copy) };
	char byte;

	EXPECT(memory != MAP_FAILED && pipe(pipes) == 0);
	memset(memory, 42, sizeof(copy));
	EXPECT(vmsplice(pipes[1], &there, 1, 0) == sizeof(copy));
	munmap(memory, PAGE);
	close(file);
	printf("holding\n");
	fflush(stdout);
	EXPECT(read(STDIN_FILENO, &byte, 1) >= 0);
	EXPECT(read(pipes[0], copy, sizeof(copy)) == sizeof(copy));
	EXPECT(copy[0] == 42 && copy[63] == 42);
	return 0;
}

/* Leaves ends of processes behind that nobody asks for. */
int leaves_ends(void)
{
	int file = open_device(), i;

	for (i = 0; i < 4; i++)
		EXPECT(outcome(start_registered(file, NULL)) == 0);
	EXPECT(ioctl(file, VSHMEM_REGISTER) == 0);
	close(file);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/* Calls with arguments that make no sense: the driver refuses them, and nothing else happens. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "selftest.h"
#include "uapi/vshmem.h"

static uint64_t random_state;

static uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void fuzz_once(int file, uint8_t *memory)
{
	static const unsigned long known[] = { VSHMEM_INFO, VSHMEM_RING, VSHMEM_WAIT,
		VSHMEM_REGISTER, VSHMEM_DEATHS };
	union {
		struct vshmem_wait wait;
		struct vshmem_deaths deaths;
		struct vshmem_ring ring;
		uint64_t words[32];
	} argument;
	unsigned long command = known[random_word() % 5];
	void *pointer = &argument;
	size_t i;

	for (i = 0; i < 32; i++)
		argument.words[i] = random_word() >> (random_word() % 64);
	if (command == VSHMEM_WAIT) {
		/* Or it would sleep for good. */
		argument.wait.timeout_ns = random_word() % 100000;
		if (random_word() % 4)
			argument.wait.reserved = 0;
	}
	if (command == VSHMEM_DEATHS && random_word() % 2)
		argument.deaths.reserved = 0;
	switch (random_word() % 12) {
	case 0: pointer = (void *)(uintptr_t)random_word(); break;
	case 1: pointer = NULL; break;
	case 2:
		pointer = memory + random_word() % HUGE;
		if (command == VSHMEM_WAIT)
			return;
		break;
	case 3: command = random_word(); break;
	case 4: command ^= 1ul << (random_word() % 32); break;
	default: break;
	}
	ioctl(file, command, pointer);
	if (random_word() % 16 == 0) {
		size_t bytes = random_word() >> (random_word() % 64);
		off_t offset = random_word() >> (random_word() % 64);
		void *part = mmap(
			NULL, bytes, random_word() % 8, 1 + random_word() % 3, file, offset);

		if (part != MAP_FAILED)
			munmap(part, bytes);
		lseek(file, offset, random_word() % 5);
		syscall(SYS_fallocate, file, random_word() % 64, offset, bytes);
		syscall(SYS_pread64, file, memory, bytes % HUGE, offset);
		syscall(SYS_write, file, memory, bytes % HUGE);
	}
}

int survives_nonsense(const char *place)
{
	const char *rounds_text = getenv("FUZZ_ROUNDS");
	long rounds = rounds_text ? atol(rounds_text) : 20000;
	pid_t children[4];
	int i;

	for (i = 0; i < 4; i++) {
		children[i] = fork();
		if (!children[i]) {
			int file = open(place, O_RDWR | O_NONBLOCK);
			uint8_t *memory = mmap(
				NULL, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

			random_state = 88172645463325252ull + i;
			if (file < 0 || memory == MAP_FAILED || setgid(65534) || setuid(65534))
				_exit(1);
			while (rounds--)
				fuzz_once(file, memory);
			_exit(0);
		}
	}
	for (i = 0; i < 4; i++)
		EXPECT(outcome(children[i]) == 0);
	return 0;
}

/* What `locker` keeps in a segment, and `forger` changes. */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>

/* By which `forger` finds it in the pool's file. */
#define ARENA_MAGIC { 0x6c6f636b6572206fu, 0x66206d616e79206bu, 0x696e647320696e20u }

enum { OF_EACH = 4 };

struct arena {
	uint64_t magic[3];
	/* Addresses of the locker's own memory, which no member is to reach. */
	volatile uint64_t targets[8];
	volatile uint32_t ready, stop;
	struct {
		pthread_mutex_t robust, normal;
		pthread_cond_t cond;
		pthread_rwlock_t rwlock;
		pthread_barrier_t barrier;
		sem_t sem;
	} each[OF_EACH] __attribute__((aligned(64)));
};

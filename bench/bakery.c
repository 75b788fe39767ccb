#include "bakery.h"

#include "run.h"

/* Memory ordering: all accesses to choosing and number are sequentially consistent, as the
 * algorithm's proof wants it. */
static void lock(struct bakery *bakery, int me)
{
	atomic_store(&bakery->customer[me].choosing, 1);
	uint32_t highest = 0;
	for (int other = 0; other < CUSTOMERS; other++) {
		uint32_t number = atomic_load(&bakery->customer[other].number);
		highest = number > highest ? number : highest;
	}
	uint32_t mine = highest + 1;
	atomic_store(&bakery->customer[me].number, mine);
	atomic_store_explicit(&bakery->customer[me].choosing, 0, memory_order_release);
	for (int other = 0; other < CUSTOMERS; other++) {
		if (other == me)
			continue;
		for (unsigned spins = 1; atomic_load(&bakery->customer[other].choosing); spins++)
			spin(spins);
		for (unsigned spins = 1;; spins++) {
			uint32_t number = atomic_load(&bakery->customer[other].number);
			if (number == 0 || number > mine || (number == mine && other > me))
				break;
			spin(spins);
		}
	}
}

static void unlock(struct bakery *bakery, int me)
{ atomic_store_explicit(&bakery->customer[me].number, 0, memory_order_release); }

void bakery_p(struct bakery *bakery, int me)
{
	for (unsigned spins = 1;; spins++) {
		/* Looked at before the lock is asked for: who waits does not stand in the way of
		 * who posts. */
		if (atomic_load_explicit(&bakery->count, memory_order_acquire) > 0) {
			lock(bakery, me);
			uint32_t count = atomic_load_explicit(&bakery->count, memory_order_relaxed);
			if (count > 0)
				atomic_store_explicit(
					&bakery->count, count - 1, memory_order_relaxed);
			unlock(bakery, me);
			if (count > 0)
				return;
		}
		spin(spins);
	}
}

void bakery_v(struct bakery *bakery, int me)
{
	lock(bakery, me);
	uint32_t count = atomic_load_explicit(&bakery->count, memory_order_relaxed);
	atomic_store_explicit(&bakery->count, count + 1, memory_order_release);
	unlock(bakery, me);
}

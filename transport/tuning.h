/* How long processes of MPI and libfabric look, yield and sleep: every constant of it, with its
 * reason. What Rust code waits for is in crates/vshmem_mem/src/tuning.rs; a test there holds those
 * together that have the same name.
 *
 * Ticks are vshmem_ticks (backoff.h), of a counter of one to a few GHz. A look takes some 50 ns.
 */
#ifndef VSHMEM_TUNING_H
#define VSHMEM_TUNING_H

/* Looks in vain before something slower is done: progress is made inside a call on a window, the
 * clock is read. 3 us: what is waited for often takes less, and what is slower takes less than a
 * tenth of it. Calls on a window that do not wait count as looks. */
#define VSHMEM_LOOKS_PER_PROGRESS 64

/* Looks in vain between yields and sleeps: about a microsecond. Whom a process waits for may be
 * waiting for its CPU. */
#define VSHMEM_LOOKS_PER_YIELD 16
/* Ticks that are spent with looking and yielding before the first sleep: where a yield is quick,
 * many of them. Some 0.1 ms, as long as two sleeps take. */
#define VSHMEM_YIELDING (1 << 18)
/* The first sleep, in nanoseconds; with the kernel's slack 70 us, which is less than a process's
 * turn where many share a CPU. The next ones are longer. */
#define VSHMEM_FIRST_SLEEP 20000
/* The longest, for each process that a CPU has to run: however many they are, one of them wakes in
 * each 50 us. */
#define VSHMEM_LONGEST_SLEEP_EACH 50000
/* Looks in vain before it is asked how many there are: some milliseconds, and processes of a job
 * come one after the other. */
#define VSHMEM_LOOKS_PER_COUNT (1 << 16)

/* Ticks between looks at who is dead: a tenth of a second or so, which a user does not notice. Such
 * a look reads a word for each domain. */
#define VSHMEM_DOMAINS_INTERVAL (UINT64_C(1) << 28)
/* Ticks before a port that has no lane left is asked again: its owner makes more when it looks
 * after its peers. */
#define VSHMEM_LANE_INTERVAL (UINT64_C(1) << 20)
/* Ticks for which an endpoint that is closed waits for a peer that lives and does not read what was
 * sent to it: a second or so, as a process may be kept from its CPU by others. */
#define VSHMEM_LINGER (UINT64_C(1) << 32)
/* Nanoseconds between looks of the thread that wakes those who sleep at a descriptor, for peers
 * that do not raise its semaphore: four wake-ups a second cost nothing. */
#define VSHMEM_DESCRIPTORS_INTERVAL 250000000

#endif

/* The osc component "vshmem": windows in memory of a pool that all their processes have, and whose
 * calls the caller's CPU carries out itself; all others are Open MPI's osc/rdma, repaired
 * (osc_interface.c).
 *
 * A window's processes agree when they make it, by Open MPI's own collective calls, whether it is
 * of the first kind: it is when the communicator has processes of several kernels, each has the
 * same pool, and the memory that the window is to have lies in it: that of MPI_Win_allocate, which
 * is taken from it here, or what MPI_Alloc_mem has given and MPI_Win_create gets.
 *
 * Where a process's memory lies, and how long it is, comes from it once, by that agreement, and is
 * checked against the pool; nothing that is an address, a length or an index is read from the pool
 * afterwards. A peer that writes what it likes into the words below can make others wait, or let
 * them in where they should wait.
 *
 * No file calls one that calls it: osc_interface.c calls osc_window.c, which names the
 * functions of osc_access.c, osc_accumulate.c and osc_synchronize.c; these call
 * osc_wait.c.
 */
#ifndef OSC_VSHMEM_H
#define OSC_VSHMEM_H

#include "ompi_config.h"

#include <stdbool.h>
#include <stdint.h>

#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/op/op.h"
#include "ompi/win/win.h"

#include "log.h"
#include "vshmem.h"

/* What the processes of a window share about one of them, in the pool. Zero at first. */
struct vshmem_window_state {
	/* Accumulates of its memory: 1 while one is made. */
	uint32_t accumulating;
	uint32_t unused[15];
	/* MPI_Win_lock: the next ticket, and those that may read and may write. A ticket that is
	 * drawn is passed by each of the two once. */
	uint32_t next, reading, writing;
	/* Origins that have completed, of the epoch that it has posted. */
	uint32_t completed;
	uint32_t unused_too[12];
};
_Static_assert(sizeof(struct vshmem_window_state) == 128, "two cache lines for each process");

enum vshmem_held { NOT_HELD, HELD_SHARED, HELD_EXCLUSIVE, HELD_UNCHECKED };

/* A window of this process, over memory of the pool. */
struct vshmem_window {
	ompi_osc_base_module_t super;
	uint32_t ranks, rank;
	struct vshmem_target {
		char *base;
		uint64_t bytes;
		int unit;
		int id; /* of its memory, where that is attached */
	} *targets;
	/* In the pool. */
	struct vshmem_window_state *states;
	uint64_t *posts; /* a row of bits for each origin: the targets that have posted */
	size_t row; /* its words */
	vshmem_team *team;
	void *memory; /* all of it */
	/* Of this process alone. */
	void *base; /* that MPI_Win_create was given */
	uint32_t attaches; /* that it may take of the pool's */
	uint8_t *held; /* enum vshmem_held of each target */
	bool all_held;
	bool warned; /* that the team has failed */
	struct ompi_group_t *started, *posted;
};

/* Parameters. */
struct vshmem_osc_parameters {
	int direct; /* windows are in the pool where that can be */
	int verbose;
};
extern struct vshmem_osc_parameters vshmem_osc_parameters;

static inline struct vshmem_window *vshmem_window_of(struct ompi_win_t *win)
{ return (struct vshmem_window *)win->w_osc_module; }

/* osc_wait.c */
/* Another look in vain at what this process waits for: makes progress now and then. */
void vshmem_window_wait(unsigned *looks);
/* To be called by what a program may call again and again until another process has done
 * something. */
void vshmem_window_pass(void);

/* osc_access.c */
/* Where `count` things of a type begin in the memory of a target; NULL when any of them would lie
 * outside of it. */
void *vshmem_window_place(const struct vshmem_window *window, int target, ptrdiff_t at,
	struct ompi_datatype_t *type, size_t count);
/* Copies data from one layout into another. */
int vshmem_window_copy(const void *from, int count, struct ompi_datatype_t *type, void *to,
	int to_count, struct ompi_datatype_t *to_type);

/* osc_access.c, osc_accumulate.c, osc_synchronize.c: as Open MPI calls them, each by its own name,
 * and some by several. */
/* clang-format off */
#define VSHMEM_WINDOW_CALLS(EACH)                                                          \
	EACH(put) EACH(get) EACH(rput) EACH(rget) EACH(accumulate) EACH(get_accumulate)    \
	EACH(raccumulate) EACH(rget_accumulate) EACH(fetch_and_op) EACH(compare_and_swap)  \
	EACH(fence) EACH(start) EACH(complete) EACH(post) EACH(test) EACH(lock)            \
	EACH(unlock) EACH(lock_all) EACH(unlock_all) EACH(sync) EACH(flush)
/* clang-format on */
#define VSHMEM_WINDOW_CALLED(call) \
	extern __typeof__(*(ompi_osc_base_module_##call##_fn_t)0) vshmem_window_##call;
VSHMEM_WINDOW_CALLS(VSHMEM_WINDOW_CALLED)
int vshmem_window_wait_for_origins(struct ompi_win_t *win);

/* osc_synchronize.c */
/* All have come; the window's team says why not. */
int vshmem_window_meet(struct vshmem_window *window);

/* osc_window.c */
/* Makes a window of the pool. OMPI_ERR_NOT_AVAILABLE: it is not to be one, and all its processes
 * know. */
int vshmem_window_make(struct ompi_win_t *win, void **base, size_t size, int unit,
	struct ompi_communicator_t *comm, int flavor, int *model);
void vshmem_window_close(void);

#endif

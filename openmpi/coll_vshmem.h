/* The coll component "vshmem": collective calls of a communicator by a team (vshmem.h) in a pool
 * that all its members have. Nonblocking ones have a team of their own, because others may be made
 * while they are under way.
 *
 * coll_interface.c has the component's structure and what is remembered of the component below,
 * coll_modex.c how members learn what others have.
 *
 * All members of a communicator take the same way in each call. So what decides is the same for all
 * of them: what they sent each other at the start (their modex), the arguments that MPI wants to be
 * equal, and, once for each communicator, an agreement that is made by the component below.
 */
#ifndef COLL_VSHMEM_H
#define COLL_VSHMEM_H

#include "ompi_config.h"

#include <stdbool.h>
#include <stdint.h>

#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/op/op.h"

#include "log.h"
#include "vshmem.h"

/* The calls that are ours where that is faster: EACH is given each name. */
#define VSHMEM_CALLS(EACH)                                                                 \
	EACH(barrier) EACH(bcast) EACH(reduce) EACH(allreduce) EACH(allgather)             \
	EACH(alltoall) EACH(gather) EACH(scatter) EACH(ibarrier) EACH(ibcast)              \
	EACH(iallreduce) EACH(iallgather) EACH(ialltoall)

/* Behind a team in its memory: when its members end it (coll_stop.c). Zero at first. */
struct vshmem_stop {
	uint32_t asked;
	uint32_t unused[15];
	struct {
		uint64_t begun; /* calls, and one more; 0: not said */
		uint64_t finished;
		uint64_t unused[6];
	} members[];
};

/* A team that a communicator uses, or not. */
struct vshmem_use {
	/* STOPPED: calls go by messages, and the team is still to be given back. */
	enum { UNDECIDED, DECIDING, BY_TEAM, BY_MESSAGES, STOPPED } way;
	int before; /* calls before it is decided */
	uint64_t calls; /* of this team */
	struct vshmem_stop *stop;
	bool inside; /* a call that waits */
	uint32_t under_way; /* calls that do not */
	vshmem_team *team;
	void *memory; /* of the team */
	struct vshmem_use *next;
	void (*give_back)(struct vshmem_use *use); /* its team is not used any more */
	uint32_t members, rank;
	bool said;
};
/* Calls by messages, at the least, between one team and the next of a communicator. */
#define CALLS_BEFORE_ANOTHER 256

/* What this component does of one communicator. */
typedef struct vshmem_gathering {
	mca_coll_base_module_t super;
	bool warned; /* that a team has failed */
	uint32_t members;
	struct vshmem_use blocking, nonblocking;
	/* What is below, which these modules were found to do. */
#define VSHMEM_BELOW(call)                          \
	mca_coll_base_module_##call##_fn_t call;    \
	mca_coll_base_module_t *call##_module;
	VSHMEM_CALLS(VSHMEM_BELOW)
} vshmem_gathering;
OBJ_CLASS_DECLARATION(vshmem_gathering);

/* Parameters. */
struct vshmem_coll_parameters {
	int priority;
	int most_members;
	int most_teams;
	int after; /* so many calls of a communicator a team is worth its making */
	size_t most_bytes; /* of a process in a call */
	size_t piece_bytes;
	int verbose;
};
extern struct vshmem_coll_parameters vshmem_coll_parameters;

/* Bytes of the largest thing that an operation is defined for. */
#define LARGEST_THING 64

/* gathering.c */
/* Decides, once for a communicator, which way its calls go. */
void vshmem_gathering_decide(vshmem_gathering *gathering, struct vshmem_use *use,
	struct ompi_communicator_t *comm);
void vshmem_gathering_end(vshmem_gathering *gathering);
/* What a team passes on at once. */
size_t vshmem_gathering_piece(void);
/* What MPI returns for what the library does. */
int vshmem_gathering_answer(vshmem_gathering *gathering, const struct vshmem_use *use, int rc);
void vshmem_coll_close(void);

/* coll_stop.c */
void vshmem_stop_enter(struct vshmem_use *use);
void vshmem_stop_forget(struct vshmem_use *use);
/* Says how far this member is, if that is asked for. */
void vshmem_stop_look(struct vshmem_use *use);
/* At the beginning of a call that is counted already, when it is asked for: whether the team still
 * makes it. */
bool vshmem_stop_goes_on(struct vshmem_use *use);
/* What `before` is then. */
int vshmem_stop_before(void);
/* Goes on with ending teams: all, when this process is LEAVING. True: there is none to end. */
bool vshmem_stop_step(bool leaving);
/* Until a team that was stopped is given back. */
void vshmem_stop_wait(struct vshmem_use *use);
/* A call is counted. Whether the team makes it. */
static inline bool vshmem_stop_count(struct vshmem_use *use)
{
	__atomic_store_n(&use->calls, use->calls + 1, __ATOMIC_RELAXED);
	/* Who looks after the team on another thread sees this call, or is seen. */
	if (opal_using_threads())
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return OPAL_LIKELY(!__atomic_load_n(&use->stop->asked, __ATOMIC_ACQUIRE))
		|| vshmem_stop_goes_on(use);
}

/* collectives.c */
/* Whether a call of so many bytes goes by the team: then it is inside of it until it clears that.
 * All members get the same answer. */
bool vshmem_coll_by_team(
	vshmem_gathering *gathering, struct ompi_communicator_t *comm, size_t bytes);
/* Operations of MPI's own, on its own datatypes without holes: bytes of one thing, else 0. The
 * arguments are the same for all members, so this is, too. */
size_t vshmem_coll_thing(struct ompi_datatype_t *type, struct ompi_op_t *op);
/* What a reduction's things are, and how the library has them combined. */
struct vshmem_reduction {
	struct ompi_op_t *op;
	struct ompi_datatype_t *type;
};
void vshmem_coll_combine(const void *earlier, void *later, size_t count, void *reduction);

/* flat.c. The bytes of a buffer without the holes of its datatype. Members may lay out the same
 * data differently, and it must go the same way. */
struct vshmem_flat {
	char *bytes; /* the buffer's own where it has no holes; NULL: there is none */
	void *data;
	size_t count;
	struct ompi_datatype_t *type;
	size_t packed; /* bytes of a copy; 0: there is none */
};
/* Of DATA, or of nothing if that is MPI_IN_PLACE; FILLED: what it holds is read. */
bool vshmem_flat_open(struct vshmem_flat *flat, const void *data, size_t count,
	struct ompi_datatype_t *type, bool filled);
/* WRITTEN: the bytes go into the buffer. */
int vshmem_flat_close(struct vshmem_flat *flat, bool written);
/* Bytes of so many things without holes. */
size_t vshmem_flat_bytes(struct ompi_datatype_t *type, int count);

/* collectives.c, coll_blocks.c, coll_nonblocking.c: as Open MPI calls them. */
#define VSHMEM_COLL_CALLED(call) \
	extern __typeof__(*(mca_coll_base_module_##call##_fn_t)0) vshmem_coll_##call;
VSHMEM_CALLS(VSHMEM_COLL_CALLED)

/* coll_nonblocking.c */
void vshmem_coll_nonblocking_close(void);

/* coll_modex.c */
/* Publishes the parameters, under the component's name. */
bool vshmem_coll_modex_publish(const mca_base_component_t *name);
void vshmem_coll_modex_open(void);
void vshmem_coll_modex_close(void);
/* All members of a group have this component, with the same parameters, and the same pool for their
 * messages; its identity is sent along. All members get the same answer. */
bool vshmem_coll_all_share(struct ompi_group_t *group, uint8_t pool[16]);

#endif

#ifndef VSHMEM_TEAM_H
#define VSHMEM_TEAM_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef struct vshmem_team vshmem_team;

/* Teams: barrier, broadcast, reduction and exchange of blocks for a fixed number of members.
 *
 * They take place in memory of any kind that all members have: a System V segment of the kernel or
 * of a pool (shmat), or a pool's memory. No pool need be open.
 *
 * All members make the same calls in the same order. A member is a handle that one thread uses at a
 * time. Waiting makes no system call as long as the others come soon; then it yields, then it
 * sleeps between looks.
 *
 * A call that fails has ended the team, for all members: each gets the same answer from then on,
 * and may only leave. vshmem_team_failure names the member because of which it failed. */

/* Errors:
 * -ETIMEDOUT: a member did not come in time.
 * -EOWNERDEAD: its process has ended, which is noticed soon if it ran in the caller's domain, and
 * is a timeout otherwise.
 * -EPIPE: it has left.
 * -EPROTO: it makes another call, or the same with another size, kind or operation.
 * -EINVAL: no such team, rank, kind or operation.
 * -EBUSY: that rank is taken.
 * -EIO: what a member has written makes no sense. */

/* Examples: teams.c */

/* Bytes of memory for so many members (at most 4096) that pass on PAYLOAD bytes at once (at most 64
 * MiB); longer ones go in pieces. Grows with both. 0: out of range. */
size_t vshmem_team_bytes(uint32_t members, size_t payload);
/* Joins as member RANK, from 0. The memory has the bytes that are told above, begins on a cache
 * line, and is zero before the first one joins, as a new segment is, and again when all have left.
 * Nobody waits here for the others. -EINVAL: no such team or rank, or the memory holds something
 * else; -EBUSY: that rank is taken; or a failed team's error. It stays mapped until the member
 * leaves. */
int vshmem_team_join(
	void *memory, uint32_t members, size_t payload, uint32_t rank, vshmem_team **team);
/* Leaves, and closes the handle. */
void vshmem_team_leave(vshmem_team *team);
/* How long a member is waited for; 10,000 when nothing else is said, UINT32_MAX for as long as it
 * takes. */
void vshmem_team_patience(vshmem_team *team, uint32_t milliseconds);
/* What is called again and again while this member waits, after a short look and between looks,
 * instead of yielding and sleeping: IDLE then says how the CPU is given away. It makes no calls for
 * this team. NULL: nothing. */
void vshmem_team_idle(vshmem_team *team, void (*idle)(void *argument), void *argument);
/* What is asked some fifty times a second while this member waits: when STOP returns other than 0,
 * the call fails with -EPIPE, as if this member had left. It makes no calls for this team. */
void vshmem_team_stop(vshmem_team *team, int (*stop)(void *argument), void *argument);
/* How often a member of this process has waited for longer than a short look, and what it waited
 * for has come: for an IDLE that sleeps longer and longer. */
uint64_t vshmem_team_arrivals(void);
/* -1: the team has not failed. Otherwise the rank that its failure is about, and a sentence in
 * MESSAGE (if any). */
int vshmem_team_failure(const vshmem_team *team, char *message, size_t bytes);

/* Waits until all have come. What each wrote before is seen by all after it. */
int vshmem_team_barrier(vshmem_team *team);
/* Copies the root's bytes to all. */
int vshmem_team_broadcast(vshmem_team *team, uint32_t root, void *data, size_t bytes);

enum vshmem_number { VSHMEM_INT32 = 1, VSHMEM_INT64, VSHMEM_UINT64, VSHMEM_FLOAT, VSHMEM_DOUBLE };
/* Integers wrap around. The last three are not for VSHMEM_FLOAT and VSHMEM_DOUBLE (-EINVAL). */
enum vshmem_operation {
	VSHMEM_SUM = 1,
	VSHMEM_PRODUCT,
	VSHMEM_MIN,
	VSHMEM_MAX,
	VSHMEM_AND,
	VSHMEM_OR,
	VSHMEM_XOR
};
/* Makes one of COUNT numbers of each member, number by number, in the order of ranks. RESULT may be
 * MINE; where the result is not wanted, at members other than the root, it may be NULL. */
int vshmem_team_reduce(vshmem_team *team, uint32_t root, const void *mine, void *result,
	size_t count, enum vshmem_number number, enum vshmem_operation operation);
/* The same with the result for all, who get the same bytes. */
int vshmem_team_allreduce(vshmem_team *team, const void *mine, void *result, size_t count,
	enum vshmem_number number, enum vshmem_operation operation);
/* Both for things of UNIT bytes each, at most the payload, that only the caller knows. COMBINE
 * makes COUNT things of a higher rank into what they and those of lower ranks are together; it is
 * called in the order of ranks. */
typedef void vshmem_combine(const void *earlier, void *later, size_t count, void *argument);
int vshmem_team_reduce_by(vshmem_team *team, uint32_t root, const void *mine, void *result,
	size_t count, size_t unit, vshmem_combine *combine, void *argument);
int vshmem_team_allreduce_by(vshmem_team *team, const void *mine, void *result, size_t count,
	size_t unit, vshmem_combine *combine, void *argument);

/* Blocks of BYTES bytes, in the order of ranks. Buffers must not overlap. For alltoall and scatter,
 * the team's payload has a byte for each other member at least (-EINVAL). */

/* Copies each member's block to all. MINE NULL: it is in its place in ALL. */
int vshmem_team_allgather(vshmem_team *team, const void *mine, void *all, size_t bytes);
/* Each member has a block for each: copies those for this one. GIVEN NULL: what it gives is in GOT,
 * too. */
int vshmem_team_alltoall(vshmem_team *team, const void *given, void *got, size_t bytes);
/* Copies each member's block to the root. ALL may be NULL at others; MINE may be NULL at the root:
 * it is in its place in ALL. */
int vshmem_team_gather(
	vshmem_team *team, uint32_t root, const void *mine, void *all, size_t bytes);
/* Copies to each member the block that the root has for it. ALL may be NULL at others; MINE may be
 * NULL at the root. */
int vshmem_team_scatter(
	vshmem_team *team, uint32_t root, const void *all, void *mine, size_t bytes);

/* Calls that are started, and looked after until they are done. What one passes on fits into the
 * payload (-EINVAL); with poll_alltoall, the blocks for all others. All members start the same ones
 * in the same order, and have finished all before they make a call that waits. Several may be under
 * way: they are done in their order, and looked after in their order, each with the same arguments
 * until it is done. 1: it is done; 0: not yet. Nothing is waited for here, and of the dead only
 * those in the caller's domain are noticed. */
struct vshmem_started {
	uint64_t words[2];
};
void vshmem_team_start(vshmem_team *team, struct vshmem_started *started);
/* What this member has for the others is in its place in ALL. */
int vshmem_team_poll_allgather(
	vshmem_team *team, struct vshmem_started *started, void *all, size_t bytes);
int vshmem_team_poll_alltoall(vshmem_team *team, struct vshmem_started *started,
	const void *given, void *got, size_t bytes);
int vshmem_team_poll_broadcast(vshmem_team *team, struct vshmem_started *started, uint32_t root,
	void *data, size_t bytes);
int vshmem_team_poll_allreduce_by(vshmem_team *team, struct vshmem_started *started, void *result,
	size_t count, size_t unit, vshmem_combine *combine, void *argument);
#ifdef __cplusplus
}
#endif
#endif

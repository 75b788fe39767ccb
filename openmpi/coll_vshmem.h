/* The coll component "vshmem": barrier, bcast, reduce and allreduce of a communicator by a team
 * (vshmem.h) in a pool that all its members have.
 *
 * What differs between releases of Open MPI is in two files: coll_interface_4_1.c has the
 * component's structure and what is remembered of the component below, coll_modex_4_1.c how members
 * learn what others have.
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

/* What this component does of one communicator. */
typedef struct vshmem_gathering {
	mca_coll_base_module_t super;
	enum { UNDECIDED, DECIDING, BY_TEAM, BY_MESSAGES } way;
	bool warned; /* that the team has failed */
	uint32_t calls, members;
	int before; /* calls before it is decided */
	vshmem_team *team;
	void *memory; /* of the team */
	/* What is below, which these modules were found to do. */
	mca_coll_base_module_barrier_fn_t barrier;
	mca_coll_base_module_bcast_fn_t bcast;
	mca_coll_base_module_reduce_fn_t reduce;
	mca_coll_base_module_allreduce_fn_t allreduce;
	mca_coll_base_module_t *barrier_module, *bcast_module, *reduce_module, *allreduce_module;
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

/* gathering.c. Decides, once for a communicator, which way its calls go. */
void vshmem_gathering_decide(vshmem_gathering *gathering, struct ompi_communicator_t *comm);
void vshmem_gathering_end(vshmem_gathering *gathering);
void vshmem_coll_close(void);

/* collectives.c */
int vshmem_coll_barrier(struct ompi_communicator_t *comm, mca_coll_base_module_t *module);
int vshmem_coll_bcast(void *data, int count, struct ompi_datatype_t *type, int root,
	struct ompi_communicator_t *comm, mca_coll_base_module_t *module);
int vshmem_coll_reduce(const void *mine, void *result, int count, struct ompi_datatype_t *type,
	struct ompi_op_t *op, int root, struct ompi_communicator_t *comm,
	mca_coll_base_module_t *module);
int vshmem_coll_allreduce(const void *mine, void *result, int count, struct ompi_datatype_t *type,
	struct ompi_op_t *op, struct ompi_communicator_t *comm, mca_coll_base_module_t *module);

/* coll_modex_4_1.c */
/* Publishes the parameters, under the component's name. */
bool vshmem_coll_modex_publish(const mca_base_component_t *name);
void vshmem_coll_modex_open(void);
void vshmem_coll_modex_close(void);
/* All members of a group have this component, with the same parameters, and the same pool for their
 * messages; its identity is sent along. All members get the same answer. */
bool vshmem_coll_all_share(struct ompi_group_t *group, uint8_t pool[16]);

#endif

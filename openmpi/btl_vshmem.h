/* The BTL "vshmem": MPI messages through the channels of a pool.
 *
 * btl_interface.c has the component's structure and calls all others. No file calls one that calls
 * it, directly or through others. What differs between releases of Open MPI is in release_*.
 *
 * Locking: a lane is used under its endpoint's lock, and so are the fragments that wait for room in
 * it; it may be taken inside the module's lock, never around it. Callbacks are called with neither
 * held.
 * Only one thread at a time is inside vshmem_btl_progress.
 */
#ifndef BTL_VSHMEM_H
#define BTL_VSHMEM_H

#include "opal_config.h"

#include <stdbool.h>
#include <stdint.h>

#include "opal/class/opal_free_list.h"
#include "opal/class/opal_list.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/util/proc.h"

#include "../transport/backoff.h"
#include "../transport/domains.h"
#include "../transport/one_sided.h"
#include "../transport/port_size.h"
#include "log.h"
#include "pair.h"
#include "stream.h"
#include "user.h"
#include "vshmem.h"

/* What a process tells its peers. */
struct vshmem_modex {
	uint8_t pool[16];
	struct vshmem_address port;
	struct vshmem_domain domain;
	uint32_t max_send_size;
	uint32_t messages[3]; /* the first: version of those between these BTLs */
	struct vshmem_place place;
};
#define VSHMEM_MESSAGES 2

/* A peer, or a process that only a reply goes to. */
struct mca_btl_base_endpoint_t {
	opal_list_item_t super;
	opal_mutex_t lock;
	struct vshmem_peer peer; /* what it is asked, and asks: under one_sided.c's lock */
	opal_list_t waiting; /* fragments that found no room */
	bool for_replies;
	uint32_t rank;
	/* Which way its messages go: the lane of `peer`, or a connection. */
	struct vshmem_pair pair;
	struct vshmem_place place;
	struct vshmem_stream stream;
	struct vshmem_source source; /* of the thread that makes progress alone */
	uint64_t streamed, streamed_here; /* messages by connections: to it, from it */
	int32_t reads; /* of its memory in the pool, under way */
	bool indirect; /* that memory is not to be read there */
	bool met; /* it was asked to look at connections */
	bool meets; /* it has asked that */
	bool gone; /* nothing can be sent to it any more */
	int why; /* an error number; 0: it was said */
	time_t since;
};
typedef struct mca_btl_base_endpoint_t vshmem_endpoint;
OBJ_CLASS_DECLARATION(vshmem_endpoint);
static inline vshmem_endpoint *vshmem_endpoint_of_peer(struct vshmem_peer *peer)
{
	return (vshmem_endpoint *)((char *)peer - offsetof(vshmem_endpoint, peer));
}

/* What is sent: headers in its own buffer, then perhaps the program's own memory. */
typedef struct vshmem_frag {
	mca_btl_base_descriptor_t base;
	mca_btl_base_segment_t segments[2];
	opal_free_list_t *home;
	mca_btl_base_tag_t tag;
	uint64_t buffer[];
} vshmem_frag;
OBJ_CLASS_DECLARATION(vshmem_frag);

/* What a peer needs to reach registered memory. It comes back from peers: checked, never trusted.
 */
struct mca_btl_base_registration_handle_t {
	uint64_t base;   /* address in the process that registered it */
	uint64_t bytes;
	uint64_t offset; /* in the pool; NOT_IN_POOL for private memory */
	uint64_t nonce;  /* of the owner's port then: the pool has it no longer than that */
	uint32_t slot;   /* of the owner's table */
	uint32_t key;
};
#define NOT_IN_POOL UINT64_MAX

struct vshmem_btl {
	mca_btl_base_module_t super;
	struct vshmem_user *users;
	vshmem_pool *pool; /* NULL: it was left, and so is the port */
	vshmem_port *port;
	struct vshmem_modex modex; /* as it was published */
	struct vshmem_me me;
	uint32_t attaches; /* the pool's */
	/* Some process leaves a pool, or is in none of ours: connections are looked at. */
	bool moving;
	uint8_t *base;
	uint64_t bytes;
	opal_mutex_t lock;
	uint32_t processes; /* of the job */
	opal_list_t endpoints;
	int32_t waiting; /* fragments */
	opal_free_list_t small, eager, large;
	int looks; /* for a message, each time progress is made */
	bool warned; /* that some peer cannot be reached */
	uint64_t *got; /* messages of each lane of the port */
	uint64_t left, streamed, streamed_here; /* times; messages by connections */
	struct vshmem_backoff backoff;
};
extern struct vshmem_btl vshmem_btl;

/* Parameters. */
struct vshmem_parameters {
	char *pool;
	size_t port_bytes;
	size_t lane_bytes;
	int verbose;
};
extern struct vshmem_parameters vshmem_parameters;

/* Messages between these BTLs themselves have tags that no message of Open MPI has. */
_Static_assert((int)VSHMEM_ONE_SIDED_LAST < MCA_BTL_TAG_BTL, "tags of Open MPI come after ours");
/* Bytes of a fragment's buffer for headers alone. */
#define SMALL_BYTES 256

/* A function that Open MPI calls by a pointer of this type. */
#define VSHMEM_CALLED(type) extern __typeof__(*(type)0)

/* Messages in lanes that are about the lanes. */
enum {
	VSHMEM_MEET = 1, /* look at connections */
	VSHMEM_OVER, /* uint64_t: so many messages went by lanes; none follows by this one */
};
_Static_assert((int)VSHMEM_OVER < (int)VSHMEM_PUT, "tags of one-sided operations come after");

/* state.c */
/* This thread is inside vshmem_btl_progress. */
bool vshmem_makes_progress(void);
void vshmem_set_progress(bool begun);

/* release_*.c */
/* Hands a message up. */
void vshmem_hand_up(const mca_btl_active_message_callback_t *callback, mca_btl_base_tag_t tag,
	const void *text, uint32_t bytes);
/* The same of any tag: tags come from peers. */
static inline void vshmem_message_up(uint8_t tag, const void *text, uint32_t bytes)
{
	const mca_btl_active_message_callback_t *callback = mca_btl_base_active_message_trigger
		+ tag;
	if (tag < MCA_BTL_TAG_MAX && callback->cbfunc)
		vshmem_hand_up(callback, tag, text, bytes);
}

/* modex_*.c */
/* What a process has published at the job's start under a component's name, to be freed; NULL:
 * nothing. The first does not wait for one that may be dead: 4.1 has it here. */
void *vshmem_modex_here(
	const mca_base_component_t *component, const opal_process_name_t *name, size_t *bytes);
void *vshmem_modex_there(
	const mca_base_component_t *component, const opal_process_name_t *name, size_t *bytes);

/* upcalls.c */
/* No other process of the job is in this kernel. */
bool vshmem_alone(void);
/* Says why, and ends the job. Returns when Open MPI has not said how. */
void vshmem_abort(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* How. */
VSHMEM_CALLED(mca_btl_base_module_register_error_fn_t) vshmem_register_error;

/* modex.c */
/* Processes of the job that may send to this one: itself among them, because osc/rdma reaches its
 * own process as it does all others. */
uint32_t vshmem_modex_size(void);
/* Publishes this process's own, under the component's name. */
bool vshmem_modex_publish(const mca_base_component_t *name);
/* What a process has published; false when it has published nothing, or is in another pool, or
 * reads it otherwise. */
bool vshmem_modex_of(const opal_process_name_t *name, struct vshmem_modex *modex);
/* The same of a process of the job, if it is here already: it is not asked for. */
bool vshmem_modex_known(uint32_t rank, struct vshmem_modex *modex);
/* That some peer goes over the network, and why. */
void vshmem_btl_tell_once(const char *why);
/* A process is sent to through the pool. Both ends of a pair come to the same answer. */
bool vshmem_is_peer(const opal_process_name_t *name, const struct vshmem_modex *modex);

/* module.c */
bool vshmem_btl_open(uint32_t processes);
/* Joins the pool, and makes a port in it. */
bool vshmem_btl_join(char *message, size_t bytes);
int vshmem_btl_finalize(struct mca_btl_base_module_t *btl);
void vshmem_btl_limits(void);

/* endpoint.c */
vshmem_endpoint *vshmem_endpoint_open(uint32_t rank, const struct vshmem_modex *modex);
void vshmem_endpoint_close(vshmem_endpoint *endpoint);
vshmem_endpoint *vshmem_endpoint_of_lane(uint32_t lane);
/* NULL: nothing was sent to it or received from it yet. */
vshmem_endpoint *vshmem_endpoint_of_rank(uint32_t rank);
/* Sends a message, whichever way it goes now; with the endpoint's lock held. As vshmem_send. */
int vshmem_endpoint_send(
	vshmem_endpoint *endpoint, const struct iovec *parts, int count, uint8_t tag);

/* send.c */
VSHMEM_CALLED(mca_btl_base_module_alloc_fn_t) vshmem_btl_alloc;
VSHMEM_CALLED(mca_btl_base_module_free_fn_t) vshmem_btl_free;
VSHMEM_CALLED(mca_btl_base_module_prepare_fn_t) vshmem_btl_prepare_src;
VSHMEM_CALLED(mca_btl_base_module_send_fn_t) vshmem_btl_send;
VSHMEM_CALLED(mca_btl_base_module_sendi_fn_t) vshmem_btl_sendi;
int vshmem_send_waiting(vshmem_endpoint *endpoint);

/* progress.c */
int vshmem_btl_progress(void);

/* memory.c */
VSHMEM_CALLED(mca_btl_base_module_register_mem_fn_t) vshmem_register_mem;
VSHMEM_CALLED(mca_btl_base_module_deregister_mem_fn_t) vshmem_deregister_mem;
/* Where a range of memory that a peer has registered lies in the pool; NULL when it does not, or
 * the peer's memory is not read there. Until vshmem_in_pool_done. */
void *vshmem_in_pool(vshmem_endpoint *endpoint, const mca_btl_base_registration_handle_t *handle,
	uint64_t address, uint64_t bytes);
void vshmem_in_pool_done(vshmem_endpoint *endpoint);
/* Memory of this process that a peer asks for, if it is registered for `access`; NULL if not. With
 * the module's lock held. */
void *vshmem_registered(
	uint32_t slot, uint32_t key, uint64_t address, uint64_t bytes, uint32_t access);
void vshmem_memory_close(void);

/* rdma.c */
VSHMEM_CALLED(mca_btl_base_module_put_fn_t) vshmem_btl_put;
VSHMEM_CALLED(mca_btl_base_module_get_fn_t) vshmem_btl_get;
VSHMEM_CALLED(mca_btl_base_module_atomic_op64_fn_t) vshmem_btl_aop;
VSHMEM_CALLED(mca_btl_base_module_atomic_fop64_fn_t) vshmem_btl_afop;
VSHMEM_CALLED(mca_btl_base_module_atomic_cswap64_fn_t) vshmem_btl_acswap;

/* one_sided.c */
/* What is to be done with memory of a peer. */
struct vshmem_one_sided {
	enum vshmem_wire_operation what; /* VSHMEM_PUT, VSHMEM_GET, VSHMEM_ATOMIC */
	enum vshmem_wire_change op; /* of an atomic operation, on a number of 4 or 8 bytes */
	uint64_t operand, compare;
	void *local; /* NULL: what was there is not wanted */
	uint64_t address, bytes;
	mca_btl_base_registration_handle_t *local_handle;
	const mca_btl_base_registration_handle_t *remote;
};
/* Begins an operation on private memory of the endpoint's peer. */
int vshmem_one_sided_start(struct mca_btl_base_endpoint_t *endpoint,
	const struct vshmem_one_sided *call, mca_btl_base_rdma_completion_fn_t done, void *context,
	void *data);
bool vshmem_one_sided_open(void);
/* Asks for, and answers, what had to wait for room. */
int vshmem_one_sided_waiting(void);
/* Tells the callers of all operations of an endpoint that they have failed: its peer can no longer
 * be asked, nor answered. Called where progress is made. */
int vshmem_one_sided_fail(vshmem_endpoint *endpoint);
/* A message with a tag from VSHMEM_PUT to VSHMEM_ONE_SIDED_LAST: by a lane, or by a connection. */
void vshmem_one_sided_arrived(uint32_t lane, uint8_t tag, const void *text, uint32_t bytes);
void vshmem_one_sided_streamed(
	vshmem_endpoint *endpoint, uint8_t tag, const void *text, uint32_t bytes);
/* Drops what waits, and reports nothing. The endpoints are closed after it. */
void vshmem_one_sided_close(void);

/* over.c */
/* Goes on with what a pair has to say, to connect and to write. True: it has nothing more to. */
bool vshmem_over_step(vshmem_endpoint *endpoint);
/* VSHMEM_MEET or VSHMEM_OVER. */
void vshmem_over_heard(uint32_t lane, uint8_t tag, const void *text, uint32_t bytes);
/* What has come by connections. Number of messages. */
int vshmem_over_receive(void);
bool vshmem_over_open(void);
void vshmem_over_close(void);

/* watch.c */
/* Processes of the job are in a domain. */
void vshmem_watch(const struct vshmem_domain *domain);
/* The one where a peer is, in this process's pool. */
void vshmem_watch_peer(const vshmem_endpoint *endpoint);
/* Looks whether the job's domains live. */
void vshmem_watch_look(void);
/* It is time to. */
bool vshmem_watch_due(void);
/* A pool is joined, another one perhaps. */
void vshmem_watch_anew(void);

/* leave.c */
/* Looks whether the pool is to be left, or can be joined. */
void vshmem_leave_look(void);
/* Goes on with leaving, and with what others that leave want. Number of messages. */
int vshmem_leave_step(void);

#endif

/* The libfabric provider "vshmem": reliable datagram endpoints over the ports and lanes of a pool.
 *
 * One endpoint is one port, with a lane to each peer that it has sent to. No file calls one that
 * calls it, directly or through others; functions are listed by file, those that call nobody first.
 *
 * Locking: an endpoint's lock is held by whatever works with its port, its lanes, its lists; an
 * address vector's, a completion queue's and the domain's may be taken inside it, never around it.
 * A function that takes an endpoint is called with its lock held unless it says otherwise. The
 * program's threads may use what they like at once (FI_THREAD_SAFE); with FI_THREAD_DOMAIN nothing
 * is locked.
 */
#ifndef VSHMEM_FI_H
#define VSHMEM_FI_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include "../transport/backoff.h"
#include "../transport/copy.h"
#include "../transport/domains.h"
#include "../transport/peer.h"
#include "core.h"
#include "cross_memory.h"
#include "offers.h"
#include "operations.h"
#include "releases.h"
#include "vshmem.h"
#include "wire.h"

#define VFI_INJECT_BYTES      4056 /* with its header, 4096 */
#define VFI_LEAST_LANE_BYTES  4096
#define VFI_LANE_HEADER_BYTES 8 /* before each message of a lane */
/* Whole lines of a lane, with the 8 bytes before each message: pieces leave no gap at its end. */
#define VFI_PIECE_BYTES (16 * 1024 - 8) /* of a longer message, with the header */
#define VFI_EAGER_BYTES (16 * 1024 - 8) /* with its header, where lanes are long enough */
#define VFI_TX_SIZE     1024 /* operations under way, before a caller gets -FI_EAGAIN */
#define VFI_RX_SIZE     65536
/* A direct put or get does not wait until the peer has received what was sent before: neither RAS
 * nor WAS. */
#define VFI_MSG_ORDER                                                                          \
	(FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAW              \
	        | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR \
	        | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)

struct vfi_wait;

/* What fi_getname tells: no part of it may be trusted that a peer has handed on. */
struct vfi_address {
	uint8_t pool[16];
	uint64_t nonce;
	uint32_t id, most_bytes; /* of the port, as in struct vshmem_address */
	struct vshmem_domain member;
	uint32_t record; /* memory id of the domain's record (memory.c); 0: none */
	uint32_t check; /* of that record */
};
_Static_assert(sizeof(struct vfi_address) == 48, "an address is 48 bytes, everywhere");

struct vfi_fabric {
	struct fid_fabric fid;
	uint32_t used;
};

/* Endpoints of a completion queue or a counter, for which progress is made when it is read, of an
 * address vector or of a domain. They are bound and closed while other threads are there: the lock
 * is taken around an endpoint's. */
struct vfi_bound {
	pthread_rwlock_t lock;
	struct vfi_endpoint **endpoints;
	uint32_t count;
};

struct vfi_domain {
	struct fid_domain fid;
	struct vfi_fabric *fabric;
	vshmem_pool *pool;
	uint8_t uuid[16];
	uint8_t *base;
	uint64_t bytes;
	struct vshmem_domain member;
	bool threads; /* locks are taken */
	int mr_mode; /* FI_MR_VIRT_ADDR and FI_MR_PROV_KEY, as far as they were asked for */
	uint32_t used; /* by what was opened in it */
	pthread_mutex_t lock;
	pthread_mutex_t backoff_lock;
	struct vshmem_backoff backoff;
	struct vshmem_domains domains; /* of the peers */
	uint32_t expected; /* peers that an address vector was opened for */
	struct vfi_memory *memory; /* memory.c */
	struct vfi_bound enabled; /* endpoints that others know of */
	pid_t opened_by;
};

/* An address vector. An fi_addr_t is an index, in a table and in a map. */
struct vfi_av {
	struct fid_av fid;
	struct vfi_domain *domain;
	pthread_mutex_t lock;
	struct vfi_av_row {
		struct vfi_address address;
		bool used;
	} *rows;
	size_t count, room;
	uint32_t *by_nonce; /* hash: index + 1 */
	size_t hash_room;
	uint64_t version; /* raised when an address goes or comes */
	struct vfi_bound bound; /* endpoints that have its indices */
	uint32_t used;
};

struct vfi_completion {
	struct fi_cq_tagged_entry entry;
	fi_addr_t source;
	struct fi_cq_err_entry *error; /* NULL: it has succeeded */
};

struct vfi_cq {
	struct fid_cq fid;
	struct vfi_domain *domain;
	pthread_mutex_t lock;
	enum fi_cq_format format;
	struct vfi_completion *ring;
	uint32_t room, head; /* room: a power of two */
	uint32_t count;
	uint32_t reads;
	bool signalled;
	struct fi_cq_err_entry last_error;
	struct vfi_bound bound;
	struct vfi_wait *wait; /* wait.c; NULL: nobody sleeps */
};

struct vfi_counter {
	struct fid_cntr fid;
	struct vfi_domain *domain;
	uint64_t value, errors;
	uint32_t regions; /* that count by it */
	struct vfi_bound bound;
	struct vfi_wait *wait;
};

/* A process (an endpoint of it) that is sent to. */
struct vfi_peer {
	struct vshmem_peer base;
	struct vfi_peer *next; /* of the endpoint's */
	struct vfi_peer *next_in_hash;
	struct vfi_address address; /* of one that is only answered: the port alone */
	uint32_t piece; /* bytes of a piece of a longer one, with its header */
	bool receives_failed; /* receives that are directed to it have failed, too */
	struct vshmem_queue sending; /* rendezvous: messages whose pieces are sent, in order */
	struct vfi_remote *memory; /* what is known of its regions */
	struct vfi_record *wake; /* where it sleeps; NULL: it never does */
	struct vfi_process process;
	int ended; /* as error, as soon as it is known: what it had sent is taken first */
	uint64_t again; /* its port had no lane: ticks when it was asked; 0 */
};

/* A lane of the own port, and who sends on it. */
struct vshmem_source {
	bool known;
	struct vshmem_address port;
	uint32_t client;
	struct vfi_peer *peer; /* once it was answered */
	fi_addr_t addr; /* as of the version */
	uint64_t version; /* of the address vector; 0: not looked up */
};

struct vfi_endpoint {
	struct fid_ep fid;
	struct vfi_domain *domain;
	struct vfi_av *av;
	struct vfi_cq *tx_cq, *rx_cq;
	struct vfi_counter *send_counter, *receive_counter, *read_counter, *write_counter,
		*remote_read_counter, *remote_write_counter;
	uint64_t caps;
	uint64_t tx_flags, rx_flags; /* of calls without flags of their own */
	bool tx_selective, rx_selective;
	bool enabled;
	pthread_mutex_t lock;

	vshmem_port *port;
	struct vfi_address address;
	struct vfi_offers offers;
	struct vfi_peer *peers;
	struct vfi_peer **by_nonce; /* hash */
	uint32_t hash_room, peer_count;
	struct vfi_peer **by_addr; /* by fi_addr_t */
	size_t by_addr_room;
	struct vshmem_source *sources; /* by lane */
	uint32_t source_room;

	struct vshmem_peers to; /* what its peers have in common */
	uint32_t outstanding; /* operations of the program that are not in the lane yet */
	size_t tx_size;
	size_t least_multi; /* FI_OPT_MIN_MULTI_RECV */

	struct vfi_receives posted, posted_tagged;
	struct vfi_unexpecteds unexpected, unexpected_tagged, claimed;
	struct vfi_receive *free_receives;
	struct vfi_send *free_sends;
	struct vshmem_domains due; /* when to look after peers */
	bool many; /* messages were there one after the other */
	bool warned; /* that some peer cannot be reached, and why */
	struct vfi_remote *remotes; /* what is known of peers' memory */
	uint32_t sweeps; /* calls of vfi_rma_progress */
	bool warned_of_attaches; /* that memory cannot be attached */
};

/* The environment, read once (FI_VSHMEM_...). */
struct vfi_parameters {
	char *pool;
	size_t port_bytes, lane_bytes;
	int peers;
	size_t cross_memory; /* bytes from which on a message is copied so; 0: none is */
};
extern struct vfi_parameters vfi_parameters;
extern struct fi_provider vfi_provider;

static inline struct vfi_endpoint *vfi_endpoint_of(struct vshmem_peers *peers)
{
	return container_of(peers, struct vfi_endpoint, to);
}

static inline void vfi_lock(const struct vfi_domain *domain, pthread_mutex_t *lock)
{
	if (domain->threads)
		pthread_mutex_lock(lock);
}
static inline bool vfi_try_lock(const struct vfi_domain *domain, pthread_mutex_t *lock)
{ return !domain->threads || pthread_mutex_trylock(lock) == 0; }
static inline void vfi_unlock(const struct vfi_domain *domain, pthread_mutex_t *lock)
{
	if (domain->threads)
		pthread_mutex_unlock(lock);
}
/* What all that is opened has. */
#define VFI_OPS(closes, binds, controls, opens) \
	{ .size = sizeof(struct fi_ops),        \
		.close = closes,                \
		.bind = binds,                  \
		.control = controls,            \
		.ops_open = opens }
/* Calls that this provider does not have. */
int vfi_no_bind(struct fid *fid, struct fid *bound, uint64_t flags);
int vfi_no_control(struct fid *fid, int command, void *argument);
int vfi_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

/* state.c: parameters, the pool of this process, sentences. */
/* A sentence for who runs the program: standard error, and the log. */
void vfi_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void vfi_read_parameters(void);
/* The pool, which stays open until the library ends; NULL: there is none. */
vshmem_pool *vfi_pool(void);
void vfi_close_pool(void);
void vfi_pool_forked(void);
/* Processes of the job, as its launcher says; 0: it does not. */
uint32_t vfi_job_size(void);
/* Lanes of a port, for so many peers at least; bytes of it, unless the pool is too full. */
uint32_t vfi_senders(uint32_t expected);
uint64_t vfi_port_bytes(const vshmem_pool *pool, uint32_t senders);
/* What may be injected: in a small pool with short lanes, no more than one message of a lane. It is
 * over when the call returns, so nobody may make the progress that several would need. */
size_t vfi_inject_bytes(const vshmem_pool *pool);

/* completion.c: what has ended. It takes the queue's lock. */
void vfi_cq_add(struct vfi_cq *cq, const struct fi_cq_tagged_entry *entry, fi_addr_t source);
/* ERROR's err is FI_E..., its prov_errno what the pool said. */
void vfi_cq_add_error(struct vfi_cq *cq, const struct fi_cq_err_entry *error, fi_addr_t source);
void vfi_count(struct vfi_counter *counter, bool failed);
/* An operation that this endpoint began has ended. FLAGS: those of the completion (FI_SEND,
 * FI_TAGGED ...), 0: it has none, nor one of an error; WANTED: the program is to be told. */
void vfi_tx_done(struct vfi_endpoint *ep, struct vfi_counter *counter, void *context,
	uint64_t flags, bool wanted);
void vfi_tx_failed(struct vfi_endpoint *ep, struct vfi_counter *counter, void *context,
	uint64_t flags, int error, int prov_errno);

/* address_vector.c */
int vfi_av_open(
	struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);
/* They take the vector's lock. */
bool vfi_av_address(struct vfi_av *av, fi_addr_t addr, struct vfi_address *address);
fi_addr_t vfi_av_of_nonce(struct vfi_av *av, uint64_t nonce);

/* operations.c: those of an endpoint that are kept for later use. */
struct vfi_send *vfi_send_new(struct vfi_endpoint *ep);
void vfi_send_free(struct vfi_endpoint *ep, struct vfi_send *send);
struct vfi_receive *vfi_receive_new(struct vfi_endpoint *ep);
void vfi_receive_free(struct vfi_endpoint *ep, struct vfi_receive *receive);
void vfi_operations_close(struct vfi_endpoint *ep);

/* wake.c: peers that sleep. */
void vfi_wake_open(struct vfi_endpoint *ep, struct vfi_peer *peer);
/* A message was published for one that wakes. */
void vfi_wake(struct vshmem_peers *peers, struct vshmem_peer *peer);
void vfi_wake_close(struct vfi_endpoint *ep, struct vfi_peer *peer);
/* Completions have come to a queue that somebody may sleep at. */
void vfi_wait_signal(struct vfi_wait *wait);

/* remote.c */
/* Before a peer's lane is closed: what is known of its memory is given back. */
void vfi_remote_close(struct vfi_peer *peer);
void vfi_remote_free(struct vfi_endpoint *ep, struct vfi_peer *peer);

/* peer.c */
/* The peer of an address, with its lane claimed. 0, or -FI_E...: -FI_EINVAL (no such address),
 * -FI_EAGAIN (no lane until it has made more), -FI_ENOMEM (none to be had). A peer that is gone is
 * a peer, with peer->error set. */
int vfi_peer_of(struct vfi_endpoint *ep, fi_addr_t addr, struct vfi_peer **peer);
/* That of a port that a message names, to be answered; NULL: it cannot be. */
struct vfi_peer *vfi_peer_of_port(struct vfi_endpoint *ep, const struct vshmem_address *port);
struct vfi_peer *vfi_peer_of_source(struct vfi_endpoint *ep, struct vshmem_source *source);
/* Whether a message cannot be answered yet: its sender's port has no lane, and will have one. */
bool vfi_peer_awaited(struct vfi_endpoint *ep, struct vshmem_source *source);
/* One that is known already, by the nonce of its port; NULL. */
struct vfi_peer *vfi_peer_known(struct vfi_endpoint *ep, uint64_t nonce);
/* All that is under way with a peer has failed: its lane is closed. */
void vfi_peer_gone(struct vshmem_peers *peers, struct vshmem_peer *peer);
/* Who sends on a lane of the own port; NULL: nobody. */
struct vshmem_source *vfi_source_of(struct vfi_endpoint *ep, uint32_t lane);
fi_addr_t vfi_source_addr(struct vfi_endpoint *ep, struct vshmem_source *source);
/* Frees those that are gone, and that the program has removed from its address vector. */
void vfi_peers_forget(struct vfi_endpoint *ep);
/* What is under way with any of them ends without a completion: no queue is bound any more. */
void vfi_peers_close(struct vfi_endpoint *ep);

/* matching.c: receives that are posted and messages that are not expected. */
void vfi_matching_close(struct vfi_endpoint *ep);
struct vfi_receive *vfi_match_posted(
	struct vfi_endpoint *ep, const struct vshmem_incoming *message, bool tagged);
struct vfi_unexpected *vfi_match_unexpected(
	struct vfi_endpoint *ep, const struct vfi_receive *receive, bool tagged, bool take);
void vfi_post_receive(struct vfi_endpoint *ep, struct vfi_receive *receive, bool tagged);
void vfi_unpost_receive(struct vfi_endpoint *ep, struct vfi_receive *receive, bool tagged);
bool vfi_keep_unexpected(struct vfi_endpoint *ep, const struct vshmem_incoming *message);
void vfi_unlink_unexpected(struct vfi_unexpecteds *list, struct vfi_unexpected *message);
void vfi_link_unexpected(struct vfi_unexpecteds *list, struct vfi_unexpected *message);

/* received.c: receives that end. The receive is freed then. */
/* So many bytes of a message are in the buffer of its receive; more than were wanted may have been
 * sent. */
void vfi_received(struct vfi_endpoint *ep, struct vfi_receive *receive,
	const struct vshmem_wire *header, const struct vshmem_address *port, size_t copied);
void vfi_receive_failed(struct vfi_endpoint *ep, struct vfi_receive *receive,
	const struct vshmem_wire *header, int error, int prov_errno);

/* rendezvous.c: messages in pieces. */
void vfi_rendezvous_cleared(struct vfi_endpoint *ep, const struct vshmem_incoming *message);
void vfi_rendezvous_piece(struct vfi_endpoint *ep, const struct vshmem_incoming *message);
/* Copies a message that a receive was found for, or asks for its pieces. PLACE: the header's bytes
 * of payload. */
void vfi_rendezvous_accept(struct vfi_endpoint *ep, struct vfi_receive *receive,
	const struct vshmem_wire *header, const struct vshmem_address *port,
	const void *offered_at);
/* Nobody wants more of it. */
void vfi_rendezvous_discard(struct vfi_endpoint *ep, const struct vshmem_wire *header,
	const struct vshmem_address *port);
/* Of vfi_calls: sends some pieces. */
int vfi_rendezvous_push(struct vshmem_peers *peers, struct vshmem_peer *base);

/* send.c */
/* By fi_inject and its like: without a context, so no completion is one of it. */
#define VFI_INJECT (FI_INJECT | UINT64_C(1) << 63)
struct vfi_call {
	const struct iovec *parts;
	size_t count;
	fi_addr_t addr;
	uint64_t tag, ignore, data;
	void *context;
	uint64_t flags; /* FI_INJECT, FI_REMOTE_CQ_DATA, FI_COMPLETION, FI_DELIVERY_COMPLETE ... */
	bool tagged;
};
/* It takes the endpoint's lock. 0 or -FI_E.... */
ssize_t vfi_start_send(struct vfi_endpoint *ep, const struct vfi_call *call);
/* The receiver has a message, or all of it. */
void vfi_send_acked(struct vfi_endpoint *ep, const struct vshmem_incoming *message);

/* receive.c */
/* It takes the endpoint's lock. 0 or -FI_E.... */
ssize_t vfi_start_receive(struct vfi_endpoint *ep, const struct vfi_call *call);
void vfi_message_arrived(struct vfi_endpoint *ep, const struct vshmem_incoming *message);
/* fi_cancel. It takes the endpoint's lock. */
ssize_t vfi_cancel(struct vfi_endpoint *ep, void *context);
/* Receives that are directed to a port that is gone. */
void vfi_directed_fail(struct vfi_endpoint *ep, uint64_t nonce, int error, int prov_errno);

/* messages.c: what programs call. */
extern struct fi_ops_msg vfi_msg_ops;
extern struct fi_ops_tagged vfi_tagged_ops;

/* rma.c */
extern struct fi_ops_rma vfi_rma_ops;
void vfi_rma_open(struct vfi_endpoint *ep);
/* What peers have withdrawn is given back now and then. */
void vfi_rma_progress(struct vfi_endpoint *ep);
/* A message of an operation from VSHMEM_PUT to VSHMEM_ONE_SIDED_LAST. */
void vfi_rma_arrived(struct vfi_endpoint *ep, const struct vshmem_incoming *message);

/* atomic.c */
extern struct fi_ops_atomic vfi_atomic_ops;
int vfi_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
	struct fi_atomic_attr *attr, uint64_t flags);

/* progress.c */
/* Receives, and sends what waits. It takes the endpoint's lock; events that were made. */
int vfi_progress(struct vfi_endpoint *ep);
/* That of all endpoints of a queue or counter; gives the CPU away where there was none. */
int vfi_progress_bound(struct vfi_domain *domain, struct vfi_bound *bound);
/* Before something is closed: takes what has come, and sends what waits for room as long as those
 * who are to get it read on, or LINGER ticks without that. */
void vfi_settle(struct vfi_endpoint *ep, uint64_t linger);
/* The same for all endpoints of a domain, without waiting. */
void vfi_settle_all(struct vfi_domain *domain);

/* wait.c: descriptors that become readable. */
int vfi_wait_open(struct vfi_domain *domain, enum fi_wait_obj kind, struct vfi_wait **wait);
void vfi_wait_close(struct vfi_wait *wait);
int vfi_wait_control(struct vfi_wait *wait, int command, void *argument);
int vfi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);
void vfi_waits_forked(void); /* in a child: as all that are named so */

/* completion_queue.c, counter.c, event_queue.c */
int vfi_cq_open(
	struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);
int vfi_counter_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
	struct fid_cntr **counter, void *context);
int vfi_eq_open(
	struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context);

/* memory.c */
extern struct fi_ops_mr vfi_mr_ops;
int vfi_memory_open(struct vfi_domain *domain);
void vfi_memory_close(struct vfi_domain *domain);
/* Id of the domain's record in the pool, for addresses; 0: none. */
uint32_t vfi_memory_record(struct vfi_domain *domain);
/* That tells it from a later record with the same id. */
uint32_t vfi_memory_check(struct vfi_domain *domain);
/* Its process may sleep, at a semaphore of this number. */
void vfi_memory_sleeps(struct vfi_domain *domain, uint32_t semaphore_number);
/* fi_open_ops of a domain. */
int vfi_memory_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

/* endpoint.c */
int vfi_endpoint_open(
	struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

/* domain.c, fabric.c, info.c */
int vfi_domain_open(
	struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context);
int vfi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int vfi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	const struct fi_info *hints, struct fi_info **info);

#endif

/* A pool's memory, System V objects, message channels and teams for C programs. Link with -lvshmem.
 *
 * Functions that return int return 0 or more when they did what they were asked, and a negative
 * errno otherwise. A pool may be used by any number of threads at once; a port or a lane by one at
 * a time. A process that was forked uses none of what its parent has opened: calls for objects give
 * -EIO there, and vshmem_open opens the pool anew; vshmem_fork_child is the exception.
 *
 * The man pages are made of this file (packaging/man/libvshmem.awk): a comment that begins with
 * "Name: " begins a page, "Errors: " its list of errors, and "Examples: " that of programs in
 * examples/library that call its functions.
 */
#ifndef VSHMEM_H
#define VSHMEM_H
#include <stddef.h>
#include <stdint.h>
#include <sys/sem.h>
#include <sys/uio.h>
#include <time.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef struct vshmem_pool vshmem_pool;
typedef struct vshmem_port vshmem_port;
typedef struct vshmem_lane vshmem_lane;
typedef struct vshmem_child vshmem_child;

/* Pools: join a pool, and leave it. */

/* Errors:
 * -ENODEV: there is no such pool, or it cannot be opened or joined; MESSAGE says why.
 * -EINVAL: the name is not UTF-8. */

/* Examples: memory.c, neighbours.c */

/* Joins the pool NAME as a client; NULL: the one that VSHMEM_POOL names, or that this guest was
 * given. A pool that is open already is opened once more. On failure, MESSAGE (if any) gets a
 * sentence of at most BYTES bytes with the 0 at its end. */
int vshmem_open(const char *name, vshmem_pool **pool, char *message, size_t bytes);
/* Leaves with the last close. What was held, and all ports and lanes, must have been given back.
 * Objects stay. NULL is no pool, and nothing happens. A program must not use the handle after its
 * last close: calls answer -EBADF to the 64 handles that were closed last, and the memory of an
 * older one has been freed and may be in use for something else. */
void vshmem_close(vshmem_pool *pool);
/* What no other pool has. */
void vshmem_identify(const vshmem_pool *pool, uint8_t uuid[16]);
/* The pool's name in 64 bytes, and this process's place in it: its domain and its client number. */
void vshmem_whoami(const vshmem_pool *pool, char name[64], uint32_t *domain, uint32_t *client);
/* Where the pool lies in this process; other processes have it elsewhere. */
void *vshmem_base(const vshmem_pool *pool);
uint64_t vshmem_bytes(const vshmem_pool *pool);

/* Neighbours: who else takes part in a pool. */

/* Errors:
 * -ENOENT: no living domain has that name.
 * -EBADF: the pool is NULL, or closed.
 * -EIO: a parent has opened the pool and not this process, or what stands in it makes no sense. */

/* Examples: neighbours.c, doorbell.c */

/* Processes of this kernel and its containers that use the pool's memory now, with this one. */
int vshmem_neighbours(const vshmem_pool *pool);

/* A member domain (a guest, the host, a container) as long as it lives: no later one has the same
 * index and epoch. */
struct vshmem_domain {
	uint32_t index, epoch;
};
/* That of this process. */
int vshmem_domain(const vshmem_pool *pool, struct vshmem_domain *domain);
/* That of the living domain of a name; -ENOENT: there is none. */
int vshmem_domain_named(const vshmem_pool *pool, const char *name, struct vshmem_domain *domain);
/* 1: it takes part; 0: it was declared dead, or evicted. */
int vshmem_domain_alive(const vshmem_pool *pool, const struct vshmem_domain *domain);

/* This process's number as a client: above 2^20, and no other process has or had it. */
int vshmem_client(const vshmem_pool *pool, uint64_t *client);
/* 1: the process of that number may still act; 0: it has ended, or its domain. That it was killed
 * is noticed by its domain's agent, as a rule within a second. */
int vshmem_client_alive(const vshmem_pool *pool, uint64_t client);

/* Memory: hold memory of a pool, and attach that of others. */

/* Errors:
 * -ENOSPC, -ENOMEM: the pool has no such memory left; -ENOMEM also: its table of attaches is full.
 * -EINVAL: no such memory, or it is shorter.
 * -EBUSY: this process has it already.
 * -EACCES: its mode does not let this user attach it.
 * -EBADF: the pool is NULL, or closed.
 * -EIO: a parent has opened the pool and not this process, or what stands in it makes no sense. */

/* Examples: memory.c */

/* Zeroed memory of the pool, whole pages. It is freed when this process and all that have attached
 * it have released it, or have ended. */
int vshmem_hold(vshmem_pool *pool, uint64_t bytes, void **memory);
/* The same, if SPARE bytes of the pool are free beside it; -ENOSPC: they are not. */
int vshmem_hold_sparing(vshmem_pool *pool, uint64_t bytes, uint64_t spare, void **memory);
int vshmem_release(vshmem_pool *pool, void *memory);
/* The id of such memory, above 0, by which another process of the pool attaches it. */
int vshmem_id(const vshmem_pool *pool, const void *memory);
/* Attaches memory or a segment by its id, if it has so many bytes. vshmem_release gives it back. */
int vshmem_attach(vshmem_pool *pool, int id, uint64_t bytes, void **memory);
/* 1: only this user may open the pool here, by owner and mode of the file or device; 0: not so. */
int vshmem_private(const vshmem_pool *pool);
/* Attaches that the pool has room for, of all processes: a claimed lane is one, held memory too. */
uint32_t vshmem_attaches(const vshmem_pool *pool);

/* Segments: System V segments of a pool, by key, and keys of names.
 *
 * For programs without the preload library, static ones too. Keys, flags, ids and errors are those
 * of the calls of libc with these names, and the objects are those of programs under `vshmem run`.
 * An object stays until it is removed, also after its maker has ended. */

/* Errors: those of shmget(2) and shmctl(2), and:
 * -EBADF: the pool is NULL, or closed.
 * -EIO: a parent has opened the pool and not this process, or what stands in it makes no sense. */

/* Examples: tally.c, turns.c */

/* shmget(2): the segment's id. vshmem_attach attaches it, vshmem_release detaches. */
int vshmem_shmget(vshmem_pool *pool, int key, uint64_t bytes, int flags);
/* The same; a new segment gets pages of this memory node of the host, where the pool has pages on
 * several (`vshmem pool create --numa 0,1`), or else of the nearest to it. -1: the node that this
 * thread runs on, as vshmem_shmget. */
int vshmem_shmget_on(vshmem_pool *pool, int key, uint64_t bytes, int flags, int node);
/* Removes it once nobody has it attached. */
int vshmem_shmrm(vshmem_pool *pool, int id);

/* The key of a name, the same everywhere. Two names may have one key, as with ftok(3). */
int vshmem_key(const char *name);

/* Names: POSIX shared memory objects of a pool, by name.
 *
 * Those of shm_open(3) in programs under `vshmem run --share posix-shm`. An object stays until it
 * is unlinked and no process has it open or attached. A name is one of shm_open(3); slashes in
 * front of it mean nothing. */

/* Errors: those of shm_open(3), ftruncate(2) and shm_unlink(3), and:
 * -ENOSPC: the pool has no memory left; of vshmem_shm_resize also: it would have to move, and a
 * process has it attached.
 * -ENFILE: the pool's table of attaches is full.
 * -EBADF: the pool is NULL, or closed.
 * -EIO: a parent has opened the pool and not this process, or what stands in it makes no sense. */

/* Examples: ledger.c, picture.c, doorbell.c */

/* shm_open(3): the object's id, by which this process has it open once more. FLAGS: O_RDONLY or
 * O_RDWR, with O_CREAT, O_EXCL and O_TRUNC; a new object gets MODE as it is, whatever the umask.
 * With O_CREAT and O_RDWR, an object without a byte gets so many, zeroed; BYTES 0: it stays as it
 * is.
 * vshmem_attach attaches it, vshmem_release detaches. */
int vshmem_shm_open(
	vshmem_pool *pool, const char *name, int flags, unsigned int mode, uint64_t bytes);
/* One opening less. What is attached stays so. */
int vshmem_shm_close(vshmem_pool *pool, int id);
/* The bytes that an object has. */
int vshmem_shm_bytes(const vshmem_pool *pool, int id, uint64_t *bytes);
/* fstat(2): what is known of it. */
struct vshmem_shm_stat {
	uint64_t bytes, room; /* its size, and the memory that it has */
	uint32_t mode, uid, gid;
	uint32_t links;		  /* 1: it has its name; 0: it was unlinked */
	uint32_t attaches, opens; /* of all processes */
};
int vshmem_shm_stat(const vshmem_pool *pool, int id, struct vshmem_shm_stat *stat);
/* ftruncate(2). As long as a process has it attached, it grows within its last page only, or to a
 * size that it had before. */
int vshmem_shm_resize(vshmem_pool *pool, int id, uint64_t bytes);
/* shm_unlink(3). */
int vshmem_shm_unlink(vshmem_pool *pool, const char *name);
/* Calls EACH for every object whose name begins with PREFIX, and returns how many there are. Names
 * come without a slash in front, in no order. */
typedef void vshmem_shm_each(const char *name, void *argument);
int vshmem_shm_names(
	const vshmem_pool *pool, const char *prefix, vshmem_shm_each *each, void *argument);

/* Words: wait until another process of the pool changes a word of its memory.
 *
 * As futex(2) does, in memory that is held or attached. A process changes the word, then wakes. */

/* Errors:
 * -ETIMEDOUT: nothing has come in time.
 * -EINTR: a signal handler has run; vshmem_interrupt is for such handlers.
 * -EINVAL: no aligned word of the pool's memory lies there, or the time is none.
 * -EBADF: the pool is NULL, or closed.
 * -EIO: a parent has opened the pool and not this process, or what stands in it makes no sense. */

/* Examples: doorbell.c */

/* Waits as long as the word has this VALUE, until somebody wakes; it looks first, then it sleeps.
 * 0: look at the word; it may even be as before. TIMEOUT is a span, NULL: none. */
int vshmem_wait(
	vshmem_pool *pool, const uint32_t *word, uint32_t value, const struct timespec *timeout);
/* Wakes at most so many of those that sleep at the word, and returns how many. */
int vshmem_wake(vshmem_pool *pool, const uint32_t *word, unsigned int most);

/* Semaphores: System V semaphore sets of a pool, by key.
 *
 * Keys, flags, ids and errors are those of the calls of libc with these names, and the sets are
 * those of programs under `vshmem run`. A set stays until it is removed, also after its maker has
 * ended. vshmem_key makes a key of a name. */

/* Errors: those of semget(2), semop(2) and semctl(2), and:
 * -EINTR: a signal handler has run; the operations were not done.
 * -EBADF: the pool is NULL, or closed.
 * -EIO: a parent has opened the pool and not this process, or what stands in it makes no sense. */

/* Examples: tally.c, turns.c */

/* semget(2): the set's id. */
int vshmem_semget(vshmem_pool *pool, int key, int count, int flags);
/* semtimedop(2); semop(2) where TIMEOUT is NULL. */
int vshmem_semop(vshmem_pool *pool, int id, const struct sembuf *operations, size_t count,
	const struct timespec *timeout);
/* The value of a semaphore of the set, and setting it. */
int vshmem_semval(vshmem_pool *pool, int id, int number);
int vshmem_semset(vshmem_pool *pool, int id, int number, int value);
/* Removes the set. All that wait there get -EIDRM. */
int vshmem_semrm(vshmem_pool *pool, int id);

/* To be called by a signal handler: the call of this library that it has interrupted, on this
 * thread, waits no longer and returns -EINTR. A handler that does not call it ends the sleep that
 * it interrupts as a rule, but not when it comes in the microseconds before the sleep, or, with
 * SA_RESTART, in some guests. May be called in any handler, at any time. */
void vshmem_interrupt(void);

/* Queues: System V message queues of a pool, by key.
 *
 * Keys, flags, ids and errors are those of the calls of libc with these names, and the queues are
 * those of programs under `vshmem run`. A queue stays until it is removed, also after its maker has
 * ended. vshmem_key makes a key of a name, and vshmem_interrupt ends a wait. */

/* Errors: those of msgget(2), msgsnd(2), msgrcv(2) and msgctl(2), and:
 * -EINTR: a signal handler has run; nothing was sent or received.
 * -EBADF: the pool is NULL, or closed.
 * -EIO: a parent has opened the pool and not this process, or what stands in it makes no sense. */

/* Examples: tally.c */

/* msgget(2): the queue's id. */
int vshmem_msgget(vshmem_pool *pool, int key, int flags);
/* msgsnd(2) and msgrcv(2), with the type beside the payload. The latter returns the bytes of the
 * payload; TYPE may be NULL. */
int vshmem_msgsnd(
	vshmem_pool *pool, int id, long type, const void *payload, size_t bytes, int flags);
int vshmem_msgrcv(vshmem_pool *pool, int id, long *type, void *payload, size_t room, long wanted,
	int flags);
/* Removes the queue and its messages. All that wait there get -EIDRM. */
int vshmem_msgrm(vshmem_pool *pool, int id);

/* Leaving: what a program is told when its domain leaves a pool, and how it parts from it.
 *
 * `vshmem pool leave` (in a guest) and `vshmem pool drain` (on its host) take a domain out of a
 * pool, for instance because the guest moves. What is new is refused with -EIDRM from then on, and
 * soon every call is. A program that asks for none of this is evicted at the time limit unless it
 * has closed the pool, and gets SIGBUS when the device is unplugged; under `vshmem run` that is
 * seen to. `vshmem pool join` lets programs open the pool again. */

/* Errors:
 * -ENOMEM: no memory for the copy, or for the thread that waits; nothing has changed.
 * -EBUSY: another callback was given before.
 * -EBADF: the pool is NULL, or closed.
 * -EIO: a parent has opened the pool and not this process, or what stands in it makes no sense. */

/* Examples: departure.c */

/* 1: this domain leaves the pool, or has left it; 0: it does not. One load. */
int vshmem_leaving(const vshmem_pool *pool);
/* A descriptor that becomes readable when this domain begins to leave, and stays so. From now on a
 * leave waits for this process to part, until its time limit. It is the library's, and closed with
 * the pool. */
int vshmem_leave_fd(vshmem_pool *pool);
/* The same with a call: LEAVE is called once, by a thread of the library's. It may part. */
int vshmem_on_leave(vshmem_pool *pool, void (*leave)(void *argument), void *argument);
/* Parts from the pool: what this process holds or has attached becomes its private memory, with the
 * same contents at the same addresses, for as long as it runs or until vshmem_release. Other
 * threads may store there meanwhile, and make no call for the pool; ports, lanes and teams have
 * been closed. Semaphores get their adjustments. Every call but vshmem_release and vshmem_close
 * gives -EIDRM from then on. */
int vshmem_part(vshmem_pool *pool);

/* Forks: a child that goes on as a client of its own.
 *
 * Around fork(2), all three for each pool that is open. The child then uses the same handle, and
 * finds what its parent has attached at the same addresses, counted for it. Adjustments of
 * semaphores (SEM_UNDO) stay the parent's, and ports, lanes and teams too. Meanwhile no other
 * thread attaches or releases memory. */

/* Errors:
 * -EAGAIN: the pool has no place for another client, or for what it has attached.
 * -ENOTSUP: children do not inherit this pool's memory (paravirtual guests of Xen).
 * -ENOSPC, -ENOSYS, -EDEADLK: the child is no client; it may call vshmem_open.
 * -EINVAL: this process has opened the pool itself.
 * -EBADF: the pool is NULL, or closed.
 * -EIO: a parent has opened the pool and not this process, or what stands in it makes no sense. */

/* Examples: memory.c */

/* Before it. Keeps a place for the child, with all that this process has attached. */
int vshmem_fork_prepare(vshmem_pool *pool, vshmem_child **child);
/* After it, in the parent. PID: what fork returned; below 0 gives the place back, 0: not known. */
int vshmem_fork_parent(vshmem_pool *pool, vshmem_child *child, int pid);
/* After it, in the child, first of all. */
int vshmem_fork_child(vshmem_pool *pool, vshmem_child *child);

/* Ports: where a process receives messages.
 *
 * A port has a lane for each sender, and receiving makes no system call. */

/* Errors:
 * -EPIPE: a sender is gone, and all that it had sent is read.
 * -EBADMSG: what a sender writes makes no sense, and is not read any more.
 * -ENOENT: nobody sends on that lane.
 * -EINVAL: no port of so many senders fits into so many bytes.
 * -ENOSPC, -ENOMEM: the pool has no memory left for it.
 * -EBADF: the pool is NULL, or closed.
 * -EIO: a parent has opened the pool and not this process, or what stands in it makes no sense. */

/* Examples: letters.c */

struct vshmem_address {
	uint64_t nonce;
	uint32_t id;
	uint32_t most_bytes; /* of a message */
};

/* A port for so many senders in at most BUDGET bytes; lanes are not larger than MOST_LANE bytes. */
int vshmem_port_make(vshmem_pool *pool, uint32_t senders, uint64_t budget, uint32_t most_lane,
	vshmem_port **port);
void vshmem_port_close(vshmem_port *port);
/* What a sender has to know. */
void vshmem_port_address(const vshmem_port *port, struct vshmem_address *address);

struct vshmem_message {
	/* The payload, in the pool, 8 bytes past a cache line; its sender may still change it. */
	const void *text;
	uint32_t bytes;
	uint32_t lane;
	uint8_t tag;
};

/* 1: a message, which stays until it is released; 0: none. With -EPIPE and -EBADMSG message->lane
 * is not a lane but that sender's client number. */
int vshmem_receive(vshmem_port *port, struct vshmem_message *message);
/* The same, looking so many times before it says that there is none. */
int vshmem_receive_soon(vshmem_port *port, struct vshmem_message *message, uint32_t looks);
/* Releases the message that was received. */
void vshmem_receive_done(vshmem_port *port, const struct vshmem_message *message);

struct vshmem_sender {
	struct vshmem_address port; /* id 0: none; most_bytes is not known */
	uint64_t mark;
	uint32_t client;
};
/* To be called now and then: where senders have found no lane, it makes twice as many, and returns
 * 1; 0: nobody has asked. -ENOSPC, -ENOMEM: the pool has no room; those that ask are told so. */
int vshmem_port_grow(vshmem_port *port);
/* Who sends on a lane, as it says. -ENOENT: nobody. */
int vshmem_sender(const vshmem_port *port, uint32_t lane, struct vshmem_sender *sender);

/* Lanes: where a process sends messages.
 *
 * A lane is used by one thread at a time, and sending makes no system call. */

/* Errors:
 * -EAGAIN: no room yet; of vshmem_lane_claim: no lane is free until vshmem_port_grow was called.
 * -ENOSPC: no lane is free, and the pool has no memory for more.
 * -EMSGSIZE: longer than vshmem_lane_most_bytes says.
 * -ENOENT: the port is gone.
 * -ENOMEM: the pool's table of attaches is full.
 * -EBADF: the pool is NULL, or closed.
 * -EIO: the lane makes no sense, or a parent has opened the pool and not this process. */

/* Examples: letters.c */

/* Claims a lane of a port. OWN (or NULL) tells the receiver where it may answer, MARK anything
 * else. -EAGAIN: all are taken, until the port's owner has called vshmem_port_grow. */
int vshmem_lane_claim(vshmem_pool *pool, const struct vshmem_address *to, const vshmem_port *own,
	uint64_t mark, vshmem_lane **lane);
/* Gives the lane back; what was sent is still read. */
void vshmem_lane_close(vshmem_lane *lane);
/* The longest message. */
uint32_t vshmem_lane_most_bytes(const vshmem_lane *lane);
/* Room for a message of so many bytes, to be written and then published, perhaps shorter. */
int vshmem_reserve(vshmem_lane *lane, uint32_t bytes, void **payload);
int vshmem_publish(vshmem_lane *lane, uint32_t bytes, uint8_t tag);
/* Both, with the copying between. */
int vshmem_send(vshmem_lane *lane, const struct iovec *parts, int count, uint8_t tag);
/* The same for two short parts, and vshmem_lane_rest, in one call. */
int vshmem_post(vshmem_lane *lane, const void *head, uint32_t head_bytes, const void *payload,
	uint32_t payload_bytes, uint8_t tag);
/* To be called when there is time: makes the next short message a little faster. */
void vshmem_lane_rest(vshmem_lane *lane);
/* 1: the receiver has read all that was sent, and has looked some 16 times since; 0: not yet. */
int vshmem_lane_drained(vshmem_lane *lane);
/* 1: the receiver may still read; 0: it is gone. */
int vshmem_lane_alive(const vshmem_lane *lane);
/* 1: the receiver has closed its port; 0: it has not, dead or alive. */
int vshmem_lane_closed(const vshmem_lane *lane);
#ifdef __cplusplus
}
#endif
#include "vshmem_team.h"
#endif

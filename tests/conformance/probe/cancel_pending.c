/* A thread that was asked to end before the call, which is no cancellation point (pthreads(7)): it
 * returns. */
#include "locks.h"
#include "mq.h"

static struct page *page;
static const char *name;
static sem_t *named;
static mqd_t queue;
static int set, segment;
static bool went_on;

static void *ask_and_call(void *call)
{
	int before;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
	((void (*)(void))call)();
	went_on = true;
	pthread_testcancel();
	return NULL;
}

static void asked_at(const char *what, void (*call)(void))
{
	void *result;
	pthread_t t;
	went_on = false;
	if (pthread_create(&t, NULL, ask_and_call, (void *)call) != 0
	        || pthread_join(t, &result) != 0)
		broken("a thread");
	say("%s: %s, %s", what, went_on ? "returned" : "ended inside",
		result == PTHREAD_CANCELED ? "ended afterwards" : "was not ended");
}

static void make_sem(void) { named = sem_open(name, O_CREAT, 0600, 1); }
static void open_sem(void) { named = sem_open(name, 0); }
static void miss_sem(void) { sem_open("/probe-no-such", 0); }
static void close_sem(void) { sem_close(named); }
static void unlink_sem(void) { sem_unlink(name); }

CASE(cancel_pending_at_sem_open)
{
	name = fresh_name();
	asked_at("makes one", make_sem);
	asked_at("opens it again", open_sem);
	asked_at("closes it", close_sem);
	asked_at("opens it", open_sem);
	asked_at("opens none", miss_sem);
	asked_at("unlinks it", unlink_sem);
	say("it can be used: %s", got(sem_trywait(named)));
}

static void make_queue(void)
{
	struct mq_attr size = { .mq_maxmsg = 4, .mq_msgsize = 16 };
	queue = mq_open(name, O_RDWR | O_CREAT, 0600, &size);
}
static void open_queue(void) { queue = mq_open(name, O_RDWR); }
static void miss_queue(void) { mq_open("/probe-no-such", O_RDWR); }
static void ask_queue(void) { mq_state(queue); }
static void set_queue(void)
{ mq_setattr(queue, &(struct mq_attr) { .mq_flags = O_NONBLOCK }, NULL); }
static void notify_queue(void)
{ mq_notify(queue, &(struct sigevent) { .sigev_notify = SIGEV_NONE }); }
static void close_queue(void) { mq_close(queue); }
static void unlink_queue(void) { mq_unlink(name); }

CASE(cancel_pending_at_mq_open)
{
	name = fresh_name();
	asked_at("makes one", make_queue);
	asked_at("asks", ask_queue);
	asked_at("sets", set_queue);
	asked_at("registers", notify_queue);
	asked_at("closes it", close_queue);
	asked_at("opens it", open_queue);
	asked_at("opens none", miss_queue);
	asked_at("unlinks it", unlink_queue);
	say("it can be used: %s", got(mq_put(queue, "text", 1)));
}

static void make_shm(void) { segment = shm_open(name, O_RDWR | O_CREAT, 0600); }
static void unlink_shm(void) { shm_unlink(name); }

CASE(cancel_pending_at_shm_open)
{
	name = fresh_name();
	asked_at("makes one", make_shm);
	asked_at("unlinks it", unlink_shm);
	say("it can be used: %s", got(ftruncate(segment, 4096)));
}

static void post(void) { sem_post(&page->sem); }
static void try_it(void) { sem_trywait(&page->sem); }

CASE(cancel_pending_at_sem_post)
{
	page = sem_page(0);
	asked_at("post", post);
	asked_at("trywait", try_it);
	say("value %d", sem_value(&page->sem));
}

static void lock(void) { pthread_mutex_lock(&page->mutex); }
static void unlock(void) { pthread_mutex_unlock(&page->mutex); }
static void signal_one(void) { pthread_cond_signal(&page->cond); }
static void signal_all(void) { pthread_cond_broadcast(&page->cond); }

CASE(cancel_pending_at_locks)
{
	page = normal_mutex();
	asked_at("lock", lock);
	asked_at("unlock", unlock);
	asked_at("signal", signal_one);
	asked_at("broadcast", signal_all);
}

static void make_set(void) { set = semget(IPC_PRIVATE, 1, 0600); }
static void raise_set(void) { step(set, 0, 1, SEM_UNDO); }
static void make_segment(void) { segment = shmget(IPC_PRIVATE, 4096, 0600); }
static void attach_segment(void) { attach(segment); }

CASE(cancel_pending_at_system_v)
{
	asked_at("semget", make_set);
	track_set(set);
	asked_at("semop", raise_set);
	asked_at("shmget", make_segment);
	track_segment(segment);
	asked_at("shmat", attach_segment);
	say("value %d, attaches %ld", value(set, 0), attaches(segment));
}

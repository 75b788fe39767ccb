/* POSIX message queues: what the cases share. */
#ifndef MQ_H
#define MQ_H

#include "case.h"

#include <mqueue.h>

/* A queue of its own name, open for both, or the case is broken. */
mqd_t mq_of(long messages, long bytes, int flags);
/* The name of the queue that mq_of() has made last. */
const char *mq_last_name(void);
struct mq_attr mq_state(mqd_t queue);
/* "2 of 10 x 8192, blocking" */
const char *mq_described(mqd_t queue);
/* Sends a text; mq_send's answer. */
int mq_put(mqd_t queue, const char *text, unsigned priority);
/* Receives and says: "text/priority", or what errno is. */
const char *mq_taken(mqd_t queue);
/* A moment so many milliseconds from now. */
struct timespec mq_after(long milliseconds);

#endif

/* For moved_guest: two processes pass a number on to each other by all four ways at once,
 * and count it.
 *   relay pass NUMBER NEXT   takes what is given to NUMBER, and gives one more to NEXT, until
 *                            it is stopped; says how often, and how often something was wrong
 *   relay start NUMBER       gives the first
 *   relay laps               says how far they are
 *   relay stop               has both end, when each has passed on what it had
 *   relay left               says what was given and not taken
 */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

enum { KEY = 0x4712, RUNNERS = 2 };

struct message {
	long type;
	long number;
};
struct seen {
	_Atomic long laps;
	_Atomic int stop;
};

static int set, queue;
static sem_t *posix[RUNNERS];
static mqd_t mail[RUNNERS];
static struct seen *seen;

static int opens(void)
{
	struct mq_attr room = { .mq_maxmsg = 4, .mq_msgsize = sizeof(long) };
	char name[16];
	int segment = shmget(KEY, sizeof(*seen), IPC_CREAT | 0666);
	set = semget(KEY, RUNNERS, IPC_CREAT | 0666);
	queue = msgget(KEY, IPC_CREAT | 0666);
	seen = segment < 0 ? (void *)-1 : shmat(segment, NULL, 0);
	for (int nth = 0; nth < RUNNERS; nth++) {
		snprintf(name, sizeof(name), "/relay-%d", nth);
		posix[nth] = sem_open(name, O_CREAT, 0666, 0);
		mail[nth] = mq_open(name, O_CREAT | O_RDWR | O_NONBLOCK, 0666, &room);
		if (posix[nth] == SEM_FAILED || mail[nth] == (mqd_t)-1)
			return 0;
	}
	return set >= 0 && queue >= 0 && seen != (void *)-1;
}

static int give(int to, long number)
{
	struct message message = { to + 1, number };
	struct sembuf change = { (unsigned short)to, 1, 0 };
	return mq_send(mail[to], (char *)&number, sizeof(number), 0)
	        || msgsnd(queue, &message, sizeof(number), 0)
	        || sem_post(posix[to])
	        || semop(set, &change, 1);
}

/* What was given, if it is the same by both ways; else 0. */
static long take(int of)
{
	struct message message;
	struct sembuf change = { (unsigned short)of, -1, 0 };
	long number;
	/* The semaphores are given last: what they guard is there. */
	if (semop(set, &change, 1)
	                || sem_wait(posix[of])
	                || msgrcv(queue, &message, sizeof(message.number), of + 1, IPC_NOWAIT) < 0
	                || mq_receive(mail[of], (char *)&number, sizeof(number), NULL) < 0)
		return 0;
	return number == message.number ? number : 0;
}

static void pass(int own, int next)
{
	long laps = 0, wrong = 0, last = 0;
	while (!wrong) {
		long number = take(own);
		/* An emulated guest needs the CPU as well. */
		usleep(2000);
		if (number == 0)
			fprintf(stderr, "relay: %s\n", strerror(errno));
		wrong += number == 0 || (last && number > 0 && number != last + 2);
		if (number > 0 && atomic_load(&seen->stop))
			number = -1;
		if (number < 0) {
			/* The other one has not ended, or has said this. */
			wrong += atomic_exchange(&seen->stop, 2) != 2 && give(next, -1);
			break;
		}
		wrong += give(next, number + 1) != 0;
		atomic_store(&seen->laps, number);
		last = number;
		laps++;
	}
	printf("relay: %s; laps %ld wrong %ld\n", laps ? "passed" : "nothing", laps, wrong);
}

static long left(void)
{
	struct msqid_ds of;
	struct mq_attr room;
	long all = msgctl(queue, IPC_STAT, &of) ? 1000 : (long)of.msg_qnum;
	for (int nth = 0; nth < RUNNERS; nth++) {
		int value = 1000;
		sem_getvalue(posix[nth], &value);
		all += mq_getattr(mail[nth], &room) ? 1000 : room.mq_curmsgs;
		all += value + semctl(set, nth, GETVAL);
	}
	return all;
}

int main(int count, char **words)
{
	int number = count > 2 ? atoi(words[2]) : 0;
	if (!opens()) {
		perror("relay");
		return 1;
	}
	if (!strcmp(words[1], "pass"))
		pass(number, count > 3 ? atoi(words[3]) : RUNNERS - 1 - number);
	else if (!strcmp(words[1], "start"))
		return give(number, 1);
	else if (!strcmp(words[1], "laps"))
		printf("%ld\n", atomic_load(&seen->laps));
	else if (!strcmp(words[1], "stop"))
		atomic_store(&seen->stop, 1);
	else
		printf("%ld\n", left());
	return 0;
}

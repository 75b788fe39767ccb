/* Makes System V calls, and calls on POSIX locks in segments, on demand: one line of input is one
 * call, one line of output is what came back.
 *
 * Numbers may be written in C's ways (01600, 0x100). A call that fails prints "-1" and the errno's
 * name. Objects are not kept track of: the process that gives the orders removes them. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_WORDS = 64, MOST_ATTACHED = 64, MOST_TEXT = 65536 };

static char *word[MOST_WORDS];
static int words;
static char *attached[MOST_ATTACHED];

struct message {
	long type;
	char text[MOST_TEXT];
};

static long number(int at) { return at < words ? strtol(word[at], NULL, 0) : 0; }

static int is(const char *name) { return words > 0 && strcmp(word[0], name) == 0; }

static void answer(long result)
{
	if (result == -1)
		printf("-1 %s\n", strerrorname_np(errno));
	else
		printf("%ld\n", result);
}

static int shm_command(const char *name)
{
	return strcmp(name, "rmid") == 0     ? IPC_RMID
		: strcmp(name, "stat") == 0  ? IPC_STAT
		: strcmp(name, "set") == 0   ? IPC_SET
		: strcmp(name, "index") == 0 ? SHM_STAT
		: strcmp(name, "any") == 0   ? SHM_STAT_ANY
					     : SHM_INFO;
}

static void shm_control(void)
{
	struct shmid_ds state = { .shm_perm.mode = 0600 };
	int command = shm_command(word[2]);
	struct shm_info info = { 0 };
	long result = shmctl(
		(int)number(1), command, command == SHM_INFO ? (void *)&info : (void *)&state);
	if (result == -1 || command == IPC_RMID || command == IPC_SET)
		answer(result);
	else if (command == SHM_INFO)
		printf("used %d highest %ld\n", info.used_ids, result);
	else
		printf("nattch %lu cpid %d lpid %d size %zu\n", (unsigned long)state.shm_nattch,
			state.shm_cpid, state.shm_lpid, state.shm_segsz);
}

static void sem_control(void)
{
	static const struct {
		const char *name;
		int command;
	} commands[] = { { "getval", GETVAL }, { "setval", SETVAL }, { "getpid", GETPID },
		{ "getncnt", GETNCNT }, { "getzcnt", GETZCNT }, { "rmid", IPC_RMID },
		{ "stat", IPC_STAT }, { "set", IPC_SET }, { "index", SEM_STAT },
		{ "any", SEM_STAT_ANY }, { "info", SEM_INFO } };
	union {
		int value;
		struct semid_ds *state;
		struct seminfo *info;
	} argument;
	struct semid_ds state = { .sem_perm.mode = 0600 };
	struct seminfo info = { 0 };
	int command = -1;
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (strcmp(word[3], commands[i].name) == 0)
			command = commands[i].command;
	if (command == SETVAL)
		argument.value = (int)number(4);
	else if (command == SEM_INFO)
		argument.info = &info;
	else
		argument.state = &state;
	long result = semctl((int)number(1), (int)number(2), command, argument);
	if (result != -1 && command == SEM_INFO)
		printf("used %d highest %ld\n", info.semusz, result);
	else
		answer(result);
}

static void msg_control(void)
{
	const char *name = word[2];
	int command = strcmp(name, "rmid") == 0 ? IPC_RMID
		: strcmp(name, "stat") == 0     ? IPC_STAT
		: strcmp(name, "set") == 0      ? IPC_SET
		: strcmp(name, "index") == 0    ? MSG_STAT
		: strcmp(name, "any") == 0      ? MSG_STAT_ANY
						: MSG_INFO;
	struct msqid_ds state = { .msg_perm.mode = 0600, .msg_qbytes = 1024 };
	struct msginfo info = { 0 };
	long result = msgctl(
		(int)number(1), command, command == MSG_INFO ? (void *)&info : (void *)&state);
	if (result == -1 || command == IPC_RMID || command == IPC_SET)
		answer(result);
	else if (command == MSG_INFO)
		printf("used %d highest %ld\n", info.msgpool, result);
	else
		printf("qnum %lu lspid %d lrpid %d\n", (unsigned long)state.msg_qnum,
			state.msg_lspid, state.msg_lrpid);
}

/* semop ID NUMBER,CHANGE[,un] ...: u is SEM_UNDO, n is IPC_NOWAIT; -tMS before them is semtimedop.
 */
static long operate(void)
{
	struct sembuf operations[MOST_WORDS];
	size_t n = 0;
	struct timespec limit, *timeout = NULL;
	for (int at = 2; at < words; at++) {
		if (word[at][0] == '-' && word[at][1] == 't') {
			long ms = atol(word[at] + 2);
			limit = (struct timespec) { ms / 1000, ms % 1000 * 1000000 };
			timeout = &limit;
			continue;
		}
		char flags[8] = "";
		int semaphore = 0, change = 0;
		sscanf(word[at], "%d,%d,%7s", &semaphore, &change, flags);
		operations[n++] = (struct sembuf) { (unsigned short)semaphore, (short)change,
			(short)((strchr(flags, 'u') ? SEM_UNDO : 0)
			        | (strchr(flags, 'n') ? IPC_NOWAIT : 0)) };
	}
	return timeout ? semtimedop((int)number(1), operations, n, timeout)
		       : semop((int)number(1), operations, n);
}

static void attach(void)
{
	int place = 0;
	while (place < MOST_ATTACHED && attached[place])
		place++;
	void *at = shmat((int)number(1), NULL, (int)number(2));
	if (at != (void *)-1)
		attached[place] = at;
	answer(at == (void *)-1 ? -1 : place);
}

static void detach(void)
{
	long place = number(1);
	int result = shmdt(attached[place]);
	if (result == 0)
		attached[place] = NULL;
	answer(result);
}

static void send(void)
{
	static struct message m;
	m.type = number(2);
	size_t bytes = words > 4 ? (size_t)number(4) : strlen(word[3]);
	memset(m.text, 'x', sizeof m.text);
	memcpy(m.text, word[3], strlen(word[3]));
	answer(msgsnd((int)number(1), &m, bytes, words > 5 ? (int)number(5) : 0));
}

static void receive(void)
{
	static struct message m;
	ssize_t got = msgrcv((int)number(1), &m, MOST_TEXT, number(2), (int)number(3));
	if (got == -1)
		answer(-1);
	else
		printf("%ld %.*s\n", m.type, (int)(got < 64 ? got : 64), m.text);
}

/* Sends until the queue or the pool is full: how many went in, and what stopped it. */
static void stuff(void)
{
	static struct message m = { .type = 1 };
	long sent = 0;
	while (msgsnd((int)number(1), &m, (size_t)number(2), IPC_NOWAIT) == 0)
		sent++;
	printf("%ld %s\n", sent, strerrorname_np(errno));
}

/* At the beginning of a segment: what two programs share, and a value under the mutex. */
struct locks {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	sem_t semaphore;
	long value;
};

static struct locks *locks(void) { return (struct locks *)attached[number(1)]; }

static void say_error(int error) { puts(error == 0 ? "0" : strerrorname_np(error)); }

static int make_locks(struct locks *l)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t condition;
	pthread_mutexattr_init(&mutex);
	pthread_condattr_init(&condition);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
	pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
	l->value = 0;
	int error = pthread_mutex_init(&l->mutex, &mutex);
	if (error == 0)
		error = pthread_cond_init(&l->changed, &condition);
	return error == 0 && sem_init(&l->semaphore, 1, 0) != 0 ? errno : error;
}

static int await_value(struct locks *l, long value)
{
	int error = pthread_mutex_lock(&l->mutex);
	while (error == 0 && l->value != value)
		error = pthread_cond_wait(&l->changed, &l->mutex);
	return error == 0 ? pthread_mutex_unlock(&l->mutex) : error;
}

static int change_value(struct locks *l, long value)
{
	int error = pthread_mutex_lock(&l->mutex);
	if (error != 0)
		return error;
	l->value = value;
	pthread_cond_broadcast(&l->changed);
	return pthread_mutex_unlock(&l->mutex);
}

/* Orders about the locks of the segment that is attached as the first argument says. */
static int obey_about_locks(void)
{
	if (is("locks"))
		say_error(make_locks(locks()));
	else if (is("lock"))
		say_error(pthread_mutex_lock(&locks()->mutex));
	else if (is("trylock"))
		say_error(pthread_mutex_trylock(&locks()->mutex));
	else if (is("unlock"))
		say_error(pthread_mutex_unlock(&locks()->mutex));
	else if (is("consistent"))
		say_error(pthread_mutex_consistent(&locks()->mutex));
	else if (is("sempost"))
		answer(sem_post(&locks()->semaphore));
	else if (is("semwait"))
		answer(sem_wait(&locks()->semaphore));
	else if (is("await"))
		say_error(await_value(locks(), number(2)));
	else if (is("change"))
		say_error(change_value(locks(), number(2)));
	else
		return 0;
	return 1;
}

static void obey(void)
{
	if (obey_about_locks())
		return;
	if (is("pid"))
		printf("%d\n", getpid());
	else if (is("ftok"))
		answer(ftok(word[1], (int)number(2)));
	else if (is("shmget"))
		answer(shmget((key_t)number(1), (size_t)number(2), (int)number(3)));
	else if (is("shmat"))
		attach();
	else if (is("shmdt"))
		detach();
	else if (is("poke"))
		printf("%ld\n", *(volatile long *)(attached[number(1)] + number(2)) = number(3));
	else if (is("peek"))
		printf("%ld\n", *(volatile long *)(attached[number(1)] + number(2)));
	else if (is("shmctl"))
		shm_control();
	else if (is("semget"))
		answer(semget((key_t)number(1), (int)number(2), (int)number(3)));
	else if (is("semop"))
		answer(operate());
	else if (is("semctl"))
		sem_control();
	else if (is("msgget"))
		answer(msgget((key_t)number(1), (int)number(2)));
	else if (is("msgsnd"))
		send();
	else if (is("msgrcv"))
		receive();
	else if (is("msgctl"))
		msg_control();
	else if (is("stuff"))
		stuff();
	else if (is("exit"))
		exit((int)number(1));
	else
		printf("? %s\n", words > 0 ? word[0] : "");
}

int main(void)
{
	static char line[MOST_TEXT];
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		words = 0;
		for (char *rest = line; words < MOST_WORDS && (word[words] = strtok(rest, " \n"));
			rest = NULL)
			words++;
		obey();
		fflush(stdout);
	}
	return 0;
}

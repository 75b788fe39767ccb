/* Limits reached. Only where they are small: tests/conformance/limits.sh makes a place for that, on
 * both sides. */
#include "case.h"

enum { PAGE = 4096, FEW = 64 };

static struct shminfo shm_limits(void)
{
	struct shminfo i;
	if (shmctl(0, IPC_INFO, (void *)&i) == -1)
		broken("IPC_INFO");
	if (i.shmmni > FEW)
		skip("the limits are not small");
	return i;
}

static struct seminfo sem_limits(void)
{
	struct seminfo i;
	shm_limits();
	if (semctl(0, 0, IPC_INFO, (union semun) { .info = &i }) == -1)
		broken("IPC_INFO");
	return i;
}

static struct msginfo msg_limits(void)
{
	struct msginfo i;
	shm_limits();
	if (msgctl(0, IPC_INFO, (void *)&i) == -1)
		broken("IPC_INFO");
	return i;
}

CASE(limits_told)
{
	struct shminfo a = shm_limits();
	struct seminfo s = sem_limits();
	struct msginfo q = msg_limits();
	say("shmmni %lu, shmmax %lu, shmall %lu, shmseg %lu", (unsigned long)a.shmmni,
		(unsigned long)a.shmmax, (unsigned long)a.shmall, (unsigned long)a.shmseg);
	say("semmni %d, semmsl %d, semmns %d, semopm %d, semmap %d, semmnu %d, semume %d, semusz %d",
		s.semmni, s.semmsl, s.semmns, s.semopm, s.semmap, s.semmnu, s.semume, s.semusz);
	say("msgmni %d, msgmax %d, msgmnb %d, msgssz %d, msgseg %d", q.msgmni, q.msgmax, q.msgmnb,
		q.msgssz, q.msgseg);
}

CASE(limits_of_segments)
{
	struct shminfo i = shm_limits();
	key_t key = fresh_key();
	unsigned long n = 0;
	while (n < FEW
	        && track_segment(shmget(n == 0 ? key : IPC_PRIVATE, PAGE, IPC_CREAT | 0600)) != -1)
		n++;
	say("%lu segments, then %s", n, got(-1));
	say("one that is there: %s", made(shmget(key, 0, 0)));
	say("IPC_EXCL of it: %s", got(shmget(key, PAGE, IPC_CREAT | IPC_EXCL | 0600)));
	shmctl(shmget(key, 0, 0), IPC_RMID, NULL);
	say("after one is removed: %s", made(track_segment(shmget(IPC_PRIVATE, PAGE, 0600))));
	say("all of them: %s", yes(n == i.shmmni));
}

CASE(limits_of_segment_sizes)
{
	struct shminfo i = shm_limits();
	say("SHMMAX: %s", made(track_segment(shmget(IPC_PRIVATE, i.shmmax, 0600))));
	say("SHMMAX + 1: %s", got(shmget(IPC_PRIVATE, i.shmmax + 1, 0600)));
	int n = 0;
	while (n < FEW && track_segment(shmget(IPC_PRIVATE, i.shmmax, 0600)) != -1)
		n++;
	say("%d more of SHMMAX, then %s", n, got(-1));
	struct shm_info usage;
	shmctl(0, SHM_INFO, (void *)&usage);
	say("pages in use %lu, segments %d", (unsigned long)usage.shm_tot, usage.used_ids);
}

CASE(limits_of_sets)
{
	struct seminfo i = sem_limits();
	key_t key = fresh_key();
	int n = 0;
	say("SEMMSL: %s", made(track_set(semget(key, i.semmsl, IPC_CREAT | 0600))));
	say("SEMMSL + 1: %s", got(semget(IPC_PRIVATE, i.semmsl + 1, 0600)));
	semctl(semget(key, 0, 0), 0, IPC_RMID);
	while (n < FEW && track_set(semget(n == 0 ? key : IPC_PRIVATE, 1, IPC_CREAT | 0600)) != -1)
		n++;
	say("%d sets, then %s", n, got(-1));
	say("one that is there: %s", made(semget(key, 0, 0)));
	say("IPC_EXCL of it: %s", got(semget(key, 1, IPC_CREAT | IPC_EXCL | 0600)));
}

CASE(limits_of_semaphores)
{
	struct seminfo i = sem_limits();
	int left = i.semmns;
	while (left >= i.semmsl && track_set(semget(IPC_PRIVATE, i.semmsl, 0600)) != -1)
		left -= i.semmsl;
	say("%d of SEMMNS left", left);
	say("one more than that: %s", got(semget(IPC_PRIVATE, left + 1, 0600)));
	int last = track_set(semget(IPC_PRIVATE, left, 0600));
	say("just that: %s", made(last));
	say("one semaphore: %s", got(semget(IPC_PRIVATE, 1, 0600)));
	struct seminfo used;
	semctl(0, 0, SEM_INFO, (union semun) { .info = &used });
	say("sets %d, semaphores %d", used.semusz, used.semaem);
	semctl(last, 0, IPC_RMID);
	say("after a removal: %s", made(track_set(semget(IPC_PRIVATE, 1, 0600))));
}

CASE(limits_of_operations)
{
	struct seminfo i = sem_limits();
	struct sembuf ops[FEW + 1] = { { 0, 0, 0 } };
	int s = set_of(1);
	say("SEMOPM: %s", got(semop(s, ops, (size_t)i.semopm)));
	say("SEMOPM + 1: %s", got(semop(s, ops, (size_t)i.semopm + 1)));
}

CASE(limits_of_queues)
{
	struct msginfo i = msg_limits();
	key_t key = fresh_key();
	int n = 0;
	while (n < FEW && track_queue(msgget(n == 0 ? key : IPC_PRIVATE, IPC_CREAT | 0600)) != -1)
		n++;
	say("%d queues, then %s", n, got(-1));
	say("one that is there: %s", made(msgget(key, 0)));
	say("IPC_EXCL of it: %s", got(msgget(key, IPC_CREAT | IPC_EXCL | 0600)));
	say("all of them: %s", yes(n == i.msgmni));
}

CASE(limits_of_messages)
{
	struct msginfo i = msg_limits();
	struct message m = { .type = 1 };
	int q = queue_of();
	say("qbytes is MSGMNB: %s", yes(queue_state(q).msg_qbytes == (msglen_t)i.msgmnb));
	say("MSGMAX: %s", got(msgsnd(q, &m, (size_t)i.msgmax, IPC_NOWAIT)));
	say("MSGMAX + 1: %s", got(msgsnd(q, &m, (size_t)i.msgmax + 1, IPC_NOWAIT)));
	int n = 0;
	while (n < FEW && msgsnd(q, &m, (size_t)i.msgmax, IPC_NOWAIT) == 0)
		n++;
	say("%d more, then %s", n, got(-1));
}

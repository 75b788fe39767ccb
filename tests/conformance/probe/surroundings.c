/* The calls in odd surroundings: the kernel needs no descriptor, no file, no stack and no
 * environment for them. */
#include "case.h"

#include <dirent.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { PAGE = 4096 };

static void use_all_three(void)
{
	struct message m;
	int a = track_segment(shmget(IPC_PRIVATE, PAGE, 0600));
	say("shmget: %s", made(a));
	char *at = shmat(a, NULL, 0);
	say("shmat: %s", made((long)at));
	if (at != (void *)-1)
		at[0] = 1;
	say("shmdt: %s", got(shmdt(at)));
	int s = track_set(semget(IPC_PRIVATE, 1, 0600));
	say("semget: %s", made(s));
	say("semop with SEM_UNDO: %s", got(step(s, 0, 1, SEM_UNDO)));
	say("semop: %s", got(step(s, 0, -1, IPC_NOWAIT)));
	int q = track_queue(msgget(IPC_PRIVATE, 0600));
	say("msgget: %s", made(q));
	say("msgsnd: %s", got(put(q, 1, "x", 0)));
	say("msgrcv: %s", got(take(q, &m, 100, 0, 0)));
}

CASE(around_descriptors_closed)
{
	int a = segment_of(PAGE), out = output_descriptor();
	char *at = attach(a);
	if ((out > 3 && close_range(3, (unsigned)out - 1, 0) != 0)
	        || close_range((unsigned)out + 1, ~0u, 0) != 0)
		broken("close_range");
	say("an old attach: %ld", attaches(a));
	say("its detach: %s", got(shmdt(at)));
	use_all_three();
}

CASE(around_descriptors_replaced)
{
	/* Whatever the program finds at a number is its own. */
	segment_of(PAGE);
	int out = output_descriptor();
	for (int n = 3; n < 64; n++)
		if (n != out)
			dup2(1, n);
	use_all_three();
}

CASE(around_no_descriptor_left)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = 0;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		broken("setrlimit");
	use_all_three();
}

struct first_call {
	const char *part;
	int set;
};

static void first_call_without_descriptor(void *context)
{
	struct first_call *f = context;
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = 128;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		broken("setrlimit");
	become(f->part, f->set);
}

CASE(around_no_descriptor_at_the_first_call)
{
	struct first_call taken = { "give one, all descriptors taken", set_of(1) };
	say("all taken: %s", ended(finish(start(first_call_without_descriptor, &taken))));
	struct first_call none = { "give one, no descriptor allowed", taken.set };
	say("none allowed: %s", ended(finish(start(first_call_without_descriptor, &none))));
	say("value %d", value(taken.set, 0));
}

CASE(around_lowest_descriptor)
{
	int before = dup(1);
	close(before);
	int a = segment_of(PAGE);
	attach(a);
	step(set_of(1), 0, 1, SEM_UNDO);
	put(queue_of(), 1, "x", 0);
	int after = dup(1);
	say("the lowest free descriptor stays: %s", yes(before == after));
}

CASE(around_chroot)
{
	if (geteuid() != 0)
		skip("needs root");
	char directory[] = "/tmp/probe-XXXXXX";
	int old_root = open("/", O_DIRECTORY | O_RDONLY);
	if (mkdtemp(directory) == NULL || chroot(directory) != 0 || chdir("/") != 0)
		broken("chroot");
	use_all_three();
	if (fchdir(old_root) != 0 || rmdir(directory + 1) != 0)
		broken("leaving the empty root");
}

CASE(around_no_children_no_threads)
{
	use_all_three();
	say("a child to wait for: %s", got(waitpid(-1, NULL, WNOHANG)));
	int threads = 0;
	DIR *tasks = opendir("/proc/self/task");
	for (struct dirent *e; tasks && (e = readdir(tasks));)
		threads += e->d_name[0] != '.';
	say("threads: %d", threads);
}

CASE(around_signal_mask)
{
	sigset_t before, after, all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigprocmask(SIG_SETMASK, NULL, &before);
	use_all_three();
	sigprocmask(SIG_SETMASK, NULL, &after);
	say("mask stays: %s", yes(memcmp(&before, &after, sizeof(long)) == 0));
	sigset_t pending;
	sigpending(&pending);
	int n = 0;
	for (int i = 1; i < 32; i++)
		n += sigismember(&pending, i) == 1;
	say("pending signals: %d", n);
}

CASE(around_errno)
{
	/* Success leaves errno alone. */
	int a = segment_of(PAGE), s = set_of(1), q = queue_of();
	struct message m = { .type = 1 };
	errno = EXDEV;
	char *at = shmat(a, NULL, 0);
	shmdt(at);
	semop(s, &(struct sembuf) { 0, 1, 0 }, 1);
	semctl(s, 0, GETVAL);
	msgsnd(q, &m, 1, 0);
	msgrcv(q, &m, 1, 0, 0);
	say("%s", errno_name(errno));
}

static void *use_on_small_stack(void *context)
{
	int *ids = context;
	char *at = shmat(ids[0], NULL, 0);
	ids[3] = at != (void *)-1 && shmdt(at) == 0
	        && semop(ids[1], &(struct sembuf) { 0, 1, SEM_UNDO }, 1) == 0;
	struct {
		long type;
		char text[8];
	} m = { 1, "small" };
	ids[4] = msgsnd(ids[2], &m, 8, 0) == 0 && msgrcv(ids[2], &m, 8, 0, 0) == 8;
	return NULL;
}

CASE(around_small_stack)
{
	int ids[5] = { segment_of(PAGE), set_of(1), queue_of(), 0, 0 };
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 16384);
	pthread_t t;
	int error = pthread_create(&t, &attributes, use_on_small_stack, ids);
	if (error != 0)
		broken("a thread with 16 KiB of stack");
	pthread_join(t, NULL);
	say("in a thread with 16 KiB of stack: %s %s", yes(ids[3]), yes(ids[4]));
}

static void child_of(const char *how, pid_t child, int a, char *at, int s)
{
	if (child == 0) {
		say("%s: child sees attaches %ld", how, attaches(a));
		say("%s: child's semop %s", how, got(step(s, 0, -1, SEM_UNDO)));
		shmdt(at);
		say("%s: after the child's detach %ld", how, attaches(a));
		_exit(0);
	}
	finish(child);
	while (value(s, 0) != 5)
		;
	say("%s: after the child %ld, value %d", how, attaches(a), value(s, 0));
}

CASE(around_raw_clone)
{
	int a = segment_of(PAGE), s = set_of(1);
	char *at = attach(a);
	set_value(s, 0, 5);
	/* glibc's getpid is a system call: no cache to be wrong in the child. */
	child_of("clone", (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L), a, at, s);
}

CASE(around__Fork)
{
	int a = segment_of(PAGE), s = set_of(1);
	char *at = attach(a);
	set_value(s, 0, 5);
	child_of("_Fork", _Fork(), a, at, s);
}

CASE(around_system_call_numbers)
{
	int a = track_segment((int)syscall(SYS_shmget, IPC_PRIVATE, (size_t)PAGE, 0600));
	say("shmget by number, IPC_STAT by name: %s",
		got(shmctl(a, IPC_STAT, &(struct shmid_ds) { 0 })));
	int b = segment_of(PAGE);
	long at = syscall(SYS_shmat, b, NULL, 0);
	say("shmget by name, shmat by number: %s", made(at));
	say("shmdt by number: %s", got(syscall(SYS_shmdt, at)));
	int s = set_of(1);
	struct sembuf o = { 0, 2, 0 };
	say("semtimedop by number: %s", got(syscall(SYS_semtimedop, s, &o, 1L, NULL)));
	say("semctl by number: %s", got(syscall(SYS_semctl, s, 0, GETVAL, 0L)));
	int q = queue_of();
	struct message m = { .type = 3 };
	say("msgsnd by number: %s", got(syscall(SYS_msgsnd, q, &m, (size_t)5, 0)));
	say("msgrcv by number: %s", got(syscall(SYS_msgrcv, q, &m, (size_t)100, 0L, IPC_NOWAIT)));
	errno = 0;
	say("an error by number: %s", got(syscall(SYS_msgrcv, q, &m, (size_t)100, 0L, IPC_NOWAIT)));
}

CASE(around_exec_with_empty_environment)
{
	int s = set_of(1);
	set_value(s, 0, 1);
	char text[16];
	snprintf(text, sizeof text, "%d", s);
	pid_t child = fork();
	if (child == 0) {
		execve("/proc/self/exe", (char *[]) { "probe", "--part", "take one", text, NULL },
			(char *[]) { NULL });
		broken("execve");
	}
	say("take one: %s", ended(finish(child)));
	say("value %d", value(s, 0));
}

/* What this process has mapped, in kilobytes. */
static long mapped(void)
{
	long pages = -1;
	FILE *file = fopen("/proc/self/statm", "r");
	if (!file || fscanf(file, "%ld", &pages) != 1)
		broken("/proc/self/statm");
	fclose(file);
	return pages * (PAGE / 1024);
}

static int vfork_and_exec(void)
{
	pid_t child = vfork();
	if (child == 0) {
		execve("/bin/true", (char *[]) { "true", NULL }, (char *[]) { "A=1", NULL });
		_exit(99);
	}
	return finish(child);
}

CASE(around_vfork_and_exec)
{
	/* The child works in this process's memory until its program is replaced. */
	set_of(1);
	int well = vfork_and_exec() == 0;
	long before = mapped();
	for (int i = 0; i < turns(60); i++)
		well += vfork_and_exec() == 0;
	say("%d of %d, more is mapped: %s", well, turns(60) + 1, yes(mapped() - before > 100));
}

static volatile sig_atomic_t handled;
static int timer_set, timer_queue;

static void use_in_handler(int signal)
{
	(void)signal;
	struct message m;
	handled++;
	step(timer_set, 0, 1, 0);
	put(timer_queue, 2, "from the handler", IPC_NOWAIT);
	take(timer_queue, &m, 100, 2, IPC_NOWAIT);
}

CASE(around_handlers_anywhere)
{
	/* A timer's handler uses the objects that the program is in the middle of using. */
	struct message m;
	timer_set = set_of(1);
	timer_queue = queue_of();
	int a = segment_of(PAGE), detached = 0, sent = 0, received = 0, counted = 0, turns = 0;
	handle(SIGALRM, use_in_handler, SA_RESTART);
	timer_t timer;
	timer_create(CLOCK_MONOTONIC, NULL, &timer);
	timer_settime(timer, 0, &(struct itimerspec) { { 0, 300000 }, { 0, 300000 } }, NULL);
	for (; handled < 100; turns++) {
		char *at = attach(a);
		detached += shmdt(at) == 0;
		sent += put(timer_queue, 1, "mine", 0) == 0;
		received += take(timer_queue, &m, 100, 1, 0) == 4;
		counted += attaches(a) == 0;
	}
	timer_delete(timer);
	say("wrong: shmdt %d, msgsnd %d, msgrcv %d, attaches %d; semaphore matches: %s, messages %lu",
		turns - detached, turns - sent, turns - received, turns - counted,
		yes(value(timer_set, 0) == handled),
		(unsigned long)queue_state(timer_queue).msg_qnum);
}

/* Fewer addresses than a pool's tables take: the kernel's calls need none, but for shmat. */
static void leave_few_addresses(void)
{
	long pages = 0;
	/* A pool's tables are there by the first limit that is set, before any call. */
	struct rlimit all;
	if (getrlimit(RLIMIT_AS, &all) != 0 || setrlimit(RLIMIT_AS, &all) != 0)
		broken("RLIMIT_AS");
	FILE *file = fopen("/proc/self/statm", "r");
	if (!file || fscanf(file, "%ld", &pages) != 1)
		broken("/proc/self/statm");
	fclose(file);
	rlim_t bytes = (rlim_t)pages * PAGE + (256 << 10);
	if (setrlimit(RLIMIT_AS, &(struct rlimit) { bytes, bytes }) != 0)
		broken("RLIMIT_AS");
}

CASE(around_few_addresses_left)
{
	leave_few_addresses();
	use_all_three();
	int a = track_segment(shmget(IPC_PRIVATE, 1 << 20, 0600));
	say("a large segment: %s", made(a));
	say("its attach: %s", made((long)shmat(a, NULL, 0)));
}

CASE(around_few_addresses_left_posix)
{
	const char *name = fresh_name();
	leave_few_addresses();
	struct mq_attr size = { .mq_maxmsg = 10, .mq_msgsize = 100 };
	mqd_t q = mq_open(name, O_RDWR | O_CREAT, 0600, &size);
	say("mq_open: %s", made(q));
	say("mq_send: %s", got(mq_send(q, "x", 1, 0)));
	sem_t *s = sem_open(name, O_CREAT, 0600, 1);
	say("sem_open: %s", s == SEM_FAILED ? errno_name(errno) : "ok");
	int file = shm_open(name, O_RDWR | O_CREAT, 0600);
	say("shm_open: %s", made(file));
	say("ftruncate: %s", got(ftruncate(file, 65536)));
}

/* How attaches and removal follow processes: fork, exec, exit, SIGKILL, threads. */
#include "case.h"

#include <pthread.h>
#include <spawn.h>

enum { PAGE = 4096 };

struct scene {
	int segment, set;
	char *at;
};

static struct scene attached_scene(void)
{
	struct scene s = { segment_of(PAGE), set_of(3), NULL };
	s.at = attach(s.segment);
	return s;
}

static void wait_for_leave(void *context)
{
	struct scene *s = context;
	step(s->set, 0, -1, 0);
}

static void detach_then_wait(void *context)
{
	struct scene *s = context;
	say("child: detach %s", got(shmdt(s->at)));
	step(s->set, 1, +1, 0);
	step(s->set, 0, -1, 0);
}

CASE(shm_fork_inherits)
{
	struct scene s = attached_scene();
	pid_t child = start(wait_for_leave, &s);
	say("with a child: %ld", attaches(s.segment));
	step(s.set, 0, +1, 0);
	finish(child);
	await_attaches(s.segment, 1);
	say("after it: %ld", attaches(s.segment));
}

CASE(shm_fork_counts_at_once)
{
	struct scene s = attached_scene();
	pid_t child = start(wait_for_leave, &s);
	step(s.set, 0, +1, 0);
	finish(child);
	say("right after waitpid of a child that exited: %ld", attaches(s.segment));
	child = start(wait_for_leave, &s);
	stop_by(child, SIGKILL);
	say("right after waitpid of a child killed by SIGKILL: %ld", attaches(s.segment));
}

CASE(shm_fork_double_attach)
{
	struct scene s = attached_scene();
	attach(s.segment);
	pid_t child = start(wait_for_leave, &s);
	say("two attaches and a child: %ld", attaches(s.segment));
	stop_by(child, SIGKILL);
	await_attaches(s.segment, 2);
	say("after it: %ld", attaches(s.segment));
}

CASE(shm_fork_child_detaches)
{
	struct scene s = attached_scene();
	strcpy(s.at, "the parent's");
	pid_t child = start(detach_then_wait, &s);
	step(s.set, 1, -1, 0);
	struct shmid_ds ds = segment_state(s.segment);
	say("attaches %lu, lpid %s, cpid %s", (unsigned long)ds.shm_nattch, who(ds.shm_lpid, child),
		who(ds.shm_cpid, child));
	say("the parent still reads %s", s.at);
	stop_by(child, SIGKILL);
}

static void grandchild(void *context)
{
	struct scene *s = context;
	pid_t child = start(wait_for_leave, s);
	say("child: %ld", attaches(s->segment));
	step(s->set, 0, +1, 0);
	finish(child);
}

CASE(shm_fork_grandchild)
{
	struct scene s = attached_scene();
	finish(start(grandchild, &s));
	await_attaches(s.segment, 1);
	say("after both: %ld", attaches(s.segment));
}

static void write_same_place(void *context)
{ strcpy(((struct scene *)context)->at, "written by the child"); }

CASE(shm_fork_same_memory)
{
	struct scene s = attached_scene();
	finish(start(write_same_place, &s));
	say("%s", s.at);
}

static void create_for_parent(void *context)
{
	int *shared = context;
	*shared = segment_of(PAGE);
	strcpy(attach(*shared), "from the creator");
}

CASE(shm_outlives_creator)
{
	int *id = (int *)shared_ints();
	pid_t child = start(create_for_parent, id);
	finish(child);
	await_attaches(*id, 0);
	struct shmid_ds ds = segment_state(*id);
	say("cpid %s, lpid %s", who(ds.shm_cpid, child), who(ds.shm_lpid, child));
	say("%s", attach(*id));
}

static void killed_while_attached(void *context)
{
	struct scene *s = context;
	attach(s->segment);
	step(s->set, 1, +1, 0);
	step(s->set, 0, -1, 0);
}

CASE(shm_sigkill)
{
	struct scene s = { segment_of(PAGE), set_of(2), NULL };
	pid_t child = start(killed_while_attached, &s);
	step(s.set, 1, -1, 0);
	say("attached: %ld", attaches(s.segment));
	stop_by(child, SIGKILL);
	await_attaches(s.segment, 0);
	struct shmid_ds ds = segment_state(s.segment);
	say("after SIGKILL: %lu, dtime %s, lpid %s", (unsigned long)ds.shm_nattch,
		when(ds.shm_dtime), who(ds.shm_lpid, child));
}

static void exec_and_linger(void *context)
{
	(void)context;
	become("linger", 0);
}

CASE(shm_exec_detaches)
{
	struct scene s = attached_scene();
	pid_t child = start(exec_and_linger, &s);
	await_attaches(s.segment, 1);
	say("with a child that has exec'd: %ld", attaches(s.segment));
	stop_by(child, SIGKILL);
	say("the parent's stays: %ld", attaches(s.segment));
}

static void exec_and_count(void *context)
{
	struct scene *s = context;
	become("count attaches", s->segment);
}

CASE(shm_exec_seen_by_new_program)
{
	struct scene s = attached_scene();
	say("attaches seen after exec: %s", ended(finish(start(exec_and_count, &s))));
}

CASE(shm_exec_that_fails)
{
	struct scene s = attached_scene();
	strcpy(s.at, "kept");
	say("%s", got(execl("/no/such/program", "x", (char *)NULL)));
	say("attaches %ld, %s", attaches(s.segment), s.at);
	say("detach: %s", got(shmdt(s.at)));
}

CASE(shm_exec_that_fails_with_a_removed_segment)
{
	struct scene s = attached_scene();
	say("remove: %s", got(shmctl(s.segment, IPC_RMID, NULL)));
	strcpy(s.at, "kept");
	say("%s", got(execlp("no-such-program", "x", (char *)NULL)));
	say("attaches %ld", attaches(s.segment));
	int others[4];
	for (int i = 0; i < 4; i++) {
		others[i] = segment_of(PAGE);
		strcpy(attach(others[i]), "another's");
	}
	say("%s", s.at);
	say("detach: %s", got(shmdt(s.at)));
	say("then it is gone: %s", got(shmctl(s.segment, IPC_STAT, &(struct shmid_ds) { 0 })));
}

static void vfork_exec(struct scene *s)
{
	char text[16];
	snprintf(text, sizeof text, "%d", s->segment);
	pid_t child = vfork();
	if (child == 0) {
		execl("/proc/self/exe", "probe", "--part", "count attaches", text, (char *)NULL);
		_exit(99);
	}
	say("attaches seen: %s", ended(finish(child)));
}

CASE(shm_vfork_exec)
{
	struct scene s = attached_scene();
	vfork_exec(&s);
	strcpy(s.at, "still mine");
	say("attaches %ld, %s", attaches(s.segment), s.at);
}

CASE(shm_posix_spawn)
{
	struct scene s = attached_scene();
	char text[16];
	snprintf(text, sizeof text, "%d", s.segment);
	char *arguments[] = { "probe", "--part", "count attaches", text, NULL };
	extern char **environ;
	pid_t child;
	int error = posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ);
	say("spawned: %s, attaches seen: %s", error ? errno_name(error) : "ok",
		ended(finish(child)));
	say("attaches %ld", attaches(s.segment));
}

static void *attach_in_thread(void *context) { return attach(((struct scene *)context)->segment); }

CASE(shm_thread_exit_keeps)
{
	struct scene s = { segment_of(PAGE), -1, NULL };
	pthread_t thread;
	void *at;
	pthread_create(&thread, NULL, attach_in_thread, &s);
	pthread_join(thread, &at);
	say("after the thread: %ld", attaches(s.segment));
	strcpy(at, "usable");
	say("%s", (char *)at);
	say("detach by another thread: %s", got(shmdt(at)));
}

CASE(shm_rmid_unattached)
{
	int a = segment_of(PAGE);
	struct shmid_ds ds;
	say("remove: %s", got(shmctl(a, IPC_RMID, NULL)));
	say("stat: %s", got(shmctl(a, IPC_STAT, &ds)));
	say("remove again: %s", got(shmctl(a, IPC_RMID, NULL)));
	say("set: %s", got(shmctl(a, IPC_SET, &ds)));
}

CASE(shm_rmid_attached)
{
	key_t key = fresh_key();
	int a = track_segment(shmget(key, PAGE, IPC_CREAT | 0600));
	char *at = attach(a);
	strcpy(at, "still here");
	say("remove: %s", got(shmctl(a, IPC_RMID, NULL)));
	struct shmid_ds ds = segment_state(a);
	say("mode %o, key %d, attaches %lu, size %lu", ds.shm_perm.mode, ds.shm_perm.__key,
		(unsigned long)ds.shm_nattch, (unsigned long)ds.shm_segsz);
	say("by key: %s", got(shmget(key, 0, 0)));
	char *again = shmat(a, NULL, 0);
	say("attach by id: %s", made((long)again));
	say("%s, attaches %ld", again, attaches(a));
	say("remove again: %s", got(shmctl(a, IPC_RMID, NULL)));
	shmdt(at);
	say("one left: %ld", attaches(a));
	shmdt(again);
	say("none left: %s", got(shmctl(a, IPC_STAT, &ds)));
	say("attach: %s", got((long)shmat(a, NULL, 0)));
}

CASE(shm_rmid_then_same_key)
{
	key_t key = fresh_key();
	int a = track_segment(shmget(key, PAGE, IPC_CREAT | 0600));
	char *old = attach(a);
	strcpy(old, "old");
	shmctl(a, IPC_RMID, NULL);
	int b = track_segment(shmget(key, 2 * PAGE, IPC_CREAT | IPC_EXCL | 0600));
	char *new = attach(b);
	say("another id: %s, empty: %s", yes(a != b), yes(new[0] == 0));
	strcpy(new, "new");
	say("%s and %s, attaches %ld and %ld", old, new, attaches(a), attaches(b));
}

CASE(shm_rmid_goes_with_last_process)
{
	struct scene s = { segment_of(PAGE), set_of(2), NULL };
	pid_t child = start(killed_while_attached, &s);
	step(s.set, 1, -1, 0);
	shmctl(s.segment, IPC_RMID, NULL);
	say("a child holds it: %ld", attaches(s.segment));
	stop_by(child, SIGKILL);
	struct shmid_ds ds;
	while (shmctl(s.segment, IPC_STAT, &ds) == 0)
		nanosleep(&(struct timespec) { .tv_nsec = 1000000 }, NULL);
	say("after its death: %s", got(-1));
}

CASE(shm_rmid_set_on_removed)
{
	int a = segment_of(PAGE);
	attach(a);
	shmctl(a, IPC_RMID, NULL);
	struct shmid_ds ds = segment_state(a);
	ds.shm_perm.mode = 0640;
	say("IPC_SET: %s", got(shmctl(a, IPC_SET, &ds)));
	say("mode %o", segment_state(a).shm_perm.mode);
}

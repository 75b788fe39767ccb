/* Objects and processes: fork, exec, exit, kill, threads, handlers. */
#include "posix_shm.h"

#include <pthread.h>

struct both {
	int file;
	char *at;
	const char *name;
};

static struct both new_object(void)
{
	const char *name = fresh_name();
	int file = object_named(name, PAGE);
	return (struct both) { file, map_object(file, PAGE), name };
}

static void write_in_child(void *context)
{
	struct both *b = context;
	strcpy(b->at, "by mapping");
	strcpy(map_object(b->file, PAGE) + 100, "by descriptor");
}

CASE(posix_shm_inherited_by_fork)
{
	struct both b = new_object();
	say("%s", ended(finish(start(write_in_child, &b))));
	say("%s, %s", b.at, b.at + 100);
}

static void close_in_child(void *context)
{
	struct both *b = context;
	munmap(b->at, PAGE);
	close(b->file);
	shm_unlink(b->name);
}

CASE(posix_shm_closed_by_a_child)
{
	struct both b = new_object();
	strcpy(b.at, "kept");
	say("%s", ended(finish(start(close_in_child, &b))));
	say("%s %s", b.at, map_object(b.file, PAGE));
	say("by name: %s", made(shm_open(b.name, O_RDWR, 0)));
}

static void outlive(void *context)
{
	struct both *b = context;
	volatile int *go = shared_ints();
	(void)go;
	say("%s %s", b->at, map_object(b->file, PAGE));
}

CASE(posix_shm_child_has_what_the_parent_closes)
{
	struct both b = new_object();
	strcpy(b.at, "child's");
	shm_unlink(b.name);
	int gate[2];
	if (pipe(gate) != 0)
		broken("pipe");
	pid_t child = fork();
	if (child == 0) {
		char byte;
		close(gate[1]);
		if (read(gate[0], &byte, 1) != 0)
			_exit(1);
		outlive(&b);
		_exit(0);
	}
	munmap(b.at, PAGE);
	close(b.file);
	close(gate[1]);
	say("%s", ended(finish(child)));
}

static void make_and_leave(void *context)
{
	strcpy(map_object(object_named(context, PAGE), PAGE), "outlives");
}

CASE(posix_shm_outlives_its_maker)
{
	const char *name = fresh_name();
	say("%s", ended(finish(start(make_and_leave, (void *)name))));
	say("%s", yes(in_object(name, 0, "outlives")));
}

static void make_and_die(void *context)
{
	make_and_leave(context);
	raise(SIGKILL);
}

CASE(posix_shm_outlives_a_killed_maker)
{
	const char *name = fresh_name();
	say("%s", ended(finish(start(make_and_die, (void *)name))));
	say("%s", yes(in_object(name, 0, "outlives")));
}

static void keep_open(void *context)
{
	struct both *b = context;
	b->at[0] = 'r';
	pause();
}

CASE(posix_shm_user_killed)
{
	struct both b = new_object();
	pid_t child = start(keep_open, &b);
	await_asleep(child);
	stop_by(child, SIGKILL);
	say("%c", b.at[0]);
	say_state("then", b.file);
	say("%s", got(ftruncate(b.file, 100)));
}

static void become_reader(void *context)
{
	struct both *b = context;
	fcntl(b->file, F_SETFD, 0);
	become("object", b->file);
}

CASE(posix_shm_inherited_by_exec)
{
	struct both b = new_object();
	strcpy(b.at, "for exec");
	say("%s", ended(finish(start(become_reader, &b))));
	say("%s", b.at);
}

CASE(posix_shm_inherited_by_exec_unlinked)
{
	struct both b = new_object();
	strcpy(b.at, "for exec");
	shm_unlink(b.name);
	pid_t child = start(become_reader, &b);
	say("%s", ended(finish(child)));
	say("%s", b.at);
}

static void become_last_user(void *context)
{
	(void)context;
	struct both b = new_object();
	strcpy(b.at, "for exec");
	shm_unlink(b.name);
	become_reader(&b);
}

CASE(posix_shm_only_the_new_program_has_it)
{
	say("%s", ended(finish(start(become_last_user, NULL))));
}

static void become_without(void *context)
{
	struct both *b = context;
	become("object", b->file);
}

CASE(posix_shm_not_inherited_by_exec)
{
	struct both b = new_object();
	say("%s", ended(finish(start(become_without, &b))));
}

CASE(posix_shm_exec_fails)
{
	struct both b = new_object();
	strcpy(b.at, "kept");
	shm_unlink(b.name);
	char *none[] = { NULL };
	say("%s", got(execve("/proc/self/nothing", none, none)));
	say("%s %s", b.at, map_object(b.file, PAGE));
}

CASE(posix_shm_vfork_child_closes)
{
	struct both b = new_object();
	pid_t child = vfork();
	if (child == 0) {
		close(b.file);
		dup2(0, 150);
		_exit(0);
	}
	say("%s", ended(finish(child)));
	say("%ld", (long)size_of(b.file));
	strcpy(map_object(b.file, PAGE), "the parent's");
	say("%s", b.at);
}

static volatile int handled;
static int handlers_file;
static char *handlers_memory;

static void in_handler(int signal)
{
	(void)signal;
	int copy = dup(handlers_file);
	struct stat state;
	if (fstat(copy, &state) == 0 && state.st_size == PAGE)
		handlers_memory[0]++;
	close(copy);
	handled = 1;
}

CASE(posix_shm_used_in_a_handler)
{
	struct both b = new_object();
	handlers_file = b.file;
	handlers_memory = b.at;
	handle(SIGUSR1, in_handler, 0);
	for (int i = 0; i < turns(100); i++) {
		raise(SIGUSR1);
		close(dup(b.file));
	}
	say("%d, %d", handled, b.at[0]);
}

static void *open_and_close(void *context)
{
	const char *name = context;
	for (int i = 0; i < turns(200); i++) {
		int file = shm_open(name, O_RDWR, 0);
		char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		if (file == -1 || at == MAP_FAILED)
			return "failed";
		close(file);
		__atomic_fetch_add((int *)at, 1, __ATOMIC_SEQ_CST);
		munmap(at, PAGE);
	}
	return NULL;
}

CASE(posix_shm_by_threads)
{
	struct both b = new_object();
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, open_and_close, (void *)b.name);
	for (int i = 0; i < 4; i++) {
		void *failed;
		pthread_join(threads[i], &failed);
		say("%s", failed ? (char *)failed : "done");
	}
	say("%d", *(int *)b.at);
}

static void add_many(void *context)
{
	const char *name = context;
	if (open_and_close((void *)name))
		_exit(1);
}

CASE(posix_shm_by_processes)
{
	struct both b = new_object();
	pid_t children[3];
	for (int i = 0; i < 3; i++)
		children[i] = start(add_many, (void *)b.name);
	for (int i = 0; i < 3; i++)
		say("%s", ended(finish(children[i])));
	say("%d", *(int *)b.at);
}

static void create_once(void *context)
{
	struct both *b = context;
	int file = shm_open(b->name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (file != -1)
		__atomic_fetch_add((int *)b->at, 1, __ATOMIC_SEQ_CST);
	else if (errno != EEXIST)
		_exit(errno);
}

CASE(posix_shm_exclusive_race)
{
	struct both b = new_object();
	for (int round = 0; round < turns(20); round++) {
		b.name = fresh_name();
		pid_t children[4];
		for (int i = 0; i < 4; i++)
			children[i] = start(create_once, &b);
		for (int i = 0; i < 4; i++)
			if (finish(children[i]) != 0)
				say("not EEXIST");
		shm_unlink(b.name);
	}
	say("%d", *(int *)b.at);
}

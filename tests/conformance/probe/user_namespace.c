/* User namespaces: who owns an object is decided by what the kernel knows of a process, not by the
 * numbers that its namespace shows it (user_namespaces(7)). Root outside makes the users. */
#include "case.h"

#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>

enum { PAGE = 4096, OWNER = 5001, STRANGER = 5002, TEAM = 5100 };

static void write_file(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);
	if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
		broken("%s: %s", path, strerror(errno));
	close(file);
}

static void map_ids(int inside, int outside)
{
	char line[64];
	snprintf(line, sizeof line, "%d %d 1", inside, outside);
	write_file("/proc/self/setgroups", "deny");
	write_file("/proc/self/uid_map", line);
	write_file("/proc/self/gid_map", line);
}

static void become_user(int uid)
{
	gid_t groups[] = { TEAM, (gid_t)uid };
	if (geteuid() != 0)
		skip("needs root");
	if (setgroups(2, groups) != 0 || setresgid(uid, uid, uid) != 0
	        || setresuid(uid, uid, uid) != 0)
		broken("becoming %d: %s", uid, strerror(errno));
	/* Or its files below /proc would be root's. */
	prctl(PR_SET_DUMPABLE, 1);
}

static void enter(void)
{
	if (unshare(CLONE_NEWUSER) != 0)
		skip("no user namespaces here");
}

static int segment, set, queue;

static void make_all(int mode)
{
	segment = track_segment(shmget(IPC_PRIVATE, PAGE, mode));
	set = track_set(semget(IPC_PRIVATE, 1, mode));
	queue = track_queue(msgget(IPC_PRIVATE, mode));
	say("made: %s %s %s", made(segment), made(set), made(queue));
}

static void use_all(void)
{
	struct shmid_ds ds;
	struct semid_ds ss;
	struct msqid_ds qs;
	struct message m;
	say("shmat: %s", made((long)shmat(segment, NULL, 0)));
	say("shmat for reading: %s", made((long)shmat(segment, NULL, SHM_RDONLY)));
	say("semop: %s", got(step(set, 0, 1, IPC_NOWAIT)));
	say("msgsnd: %s", got(put(queue, 1, "x", IPC_NOWAIT)));
	say("msgrcv: %s", got(take(queue, &m, 100, 0, IPC_NOWAIT)));
	if (shmctl(segment, IPC_STAT, &ds) == 0)
		say("segment of %u:%u, made by %u:%u", ds.shm_perm.uid, ds.shm_perm.gid,
			ds.shm_perm.cuid, ds.shm_perm.cgid);
	else
		say("shmctl IPC_STAT: %s", errno_name(errno));
	if (semctl(set, 0, IPC_STAT, (union semun) { .buf = &ss }) == 0)
		say("set of %u:%u", ss.sem_perm.uid, ss.sem_perm.gid);
	else
		say("semctl IPC_STAT: %s", errno_name(errno));
	if (msgctl(queue, IPC_STAT, &qs) == 0)
		say("queue of %u:%u", qs.msg_perm.uid, qs.msg_perm.gid);
	else
		say("msgctl IPC_STAT: %s", errno_name(errno));
}

static void give_all(int uid, int gid)
{
	struct shmid_ds ds = { .shm_perm = { .uid = uid, .gid = gid, .mode = 0600 } };
	struct semid_ds ss = { .sem_perm = { .uid = uid, .gid = gid, .mode = 0600 } };
	struct msqid_ds qs = { .msg_perm = { .uid = uid, .gid = gid, .mode = 0600 },
		.msg_qbytes = 16384 };
	say("IPC_SET to %d:%d: %s", uid, gid, got(shmctl(segment, IPC_SET, &ds)));
	say("of the set: %s", got(semctl(set, 0, IPC_SET, (union semun) { .buf = &ss })));
	say("of the queue: %s", got(msgctl(queue, IPC_SET, &qs)));
}

static void remove_all(void)
{
	say("IPC_RMID: %s", got(shmctl(segment, IPC_RMID, NULL)));
	say("of the set: %s", got(semctl(set, 0, IPC_RMID)));
	say("of the queue: %s", got(msgctl(queue, IPC_RMID, NULL)));
}

/* Runs a part of a case in a child: an error of it ends the case. */
static void aside(role_fn *role)
{
	int status = finish(start(role, NULL));
	if (status != 0)
		say("%s", ended(status));
}

CASE(userns_owner_whose_ids_nobody_has_mapped)
{
	become_user(OWNER);
	make_all(0600);
	enter();
	use_all();
	give_all(65534, 65534);
	give_all(OWNER, OWNER);
	remove_all();
}

CASE(userns_owner_is_root_inside)
{
	become_user(OWNER);
	make_all(0600);
	enter();
	map_ids(0, OWNER);
	use_all();
	give_all(OWNER, OWNER);
	give_all(0, 0);
	use_all();
	remove_all();
}

CASE(userns_owner_is_itself_inside)
{
	become_user(OWNER);
	make_all(0600);
	enter();
	use_all();
	map_ids(OWNER, OWNER);
	use_all();
	remove_all();
}

static void inside_as_root(void)
{
	int uid = (int)geteuid();
	enter();
	map_ids(0, uid);
}

static void stranger(void *context)
{
	(void)context;
	become_user(STRANGER);
	inside_as_root();
	use_all();
	give_all(0, 0);
	remove_all();
}

CASE(userns_stranger_is_root_inside)
{
	if (geteuid() != 0)
		skip("needs root");
	make_all(0600);
	aside(stranger);
}

CASE(userns_stranger_is_root_inside_and_may_read)
{
	if (geteuid() != 0)
		skip("needs root");
	make_all(0604);
	aside(stranger);
}

static void stranger_to_owner(void *context)
{
	(void)context;
	become_user(STRANGER);
	enter();
	map_ids(OWNER, STRANGER);
	use_all();
	remove_all();
}

static void owner_then_stranger(void *context)
{
	(void)context;
	become_user(OWNER);
	make_all(0600);
}

CASE(userns_stranger_has_the_owners_number_inside)
{
	volatile int *ids = shared_ints();
	pid_t child = fork();
	if (child == 0) {
		owner_then_stranger(NULL);
		ids[0] = segment, ids[1] = set, ids[2] = queue;
		_exit(0);
	}
	finish(child);
	segment = ids[0], set = ids[1], queue = ids[2];
	aside(stranger_to_owner);
}

/* A container inside a container, as bubblewrap makes it: root in the first, itself in the
 * second. */
static void inside_twice(int uid)
{
	enter();
	map_ids(0, uid);
	enter();
	map_ids(uid, 0);
}

CASE(userns_owner_in_a_namespace_inside_another)
{
	become_user(OWNER);
	make_all(0600);
	inside_twice(OWNER);
	use_all();
	give_all(OWNER, OWNER);
	remove_all();
}

static void stranger_inside_twice(void *context)
{
	(void)context;
	become_user(STRANGER);
	inside_twice(STRANGER);
	use_all();
	remove_all();
}

CASE(userns_stranger_in_a_namespace_inside_another)
{
	if (geteuid() != 0)
		skip("needs root");
	make_all(0600);
	aside(stranger_inside_twice);
}

/* What was made inside belongs outside to whom the maker is there. */
static void maker_inside(void *context)
{
	volatile int *ids = context;
	become_user(OWNER);
	inside_as_root();
	make_all(0600);
	ids[0] = segment, ids[1] = set, ids[2] = queue;
}

CASE(userns_objects_made_inside_are_the_owners_outside)
{
	volatile int *ids = shared_ints();
	if (geteuid() != 0)
		skip("needs root");
	int status = finish(start(maker_inside, (void *)ids));
	if (status != 0)
		say("the maker: %s", ended(status));
	segment = ids[0], set = ids[1], queue = ids[2];
	become_user(OWNER);
	use_all();
	remove_all();
}

CASE(userns_group_that_nobody_has_mapped)
{
	if (geteuid() != 0)
		skip("needs root");
	make_all(0640);
	give_all(0, TEAM);
	struct shmid_ds ds = { .shm_perm = { .uid = 0, .gid = TEAM, .mode = 0640 } };
	shmctl(segment, IPC_SET, &ds);
	become_user(OWNER);
	enter();
	say("for reading: %s", made((long)shmat(segment, NULL, SHM_RDONLY)));
	map_ids(0, OWNER);
	say("mapped, for reading: %s", made((long)shmat(segment, NULL, SHM_RDONLY)));
	say("for writing: %s", made((long)shmat(segment, NULL, 0)));
}

/* The same of a program that comes in by exec: it has the maps, and not what was before. */
/* Whether a program that belongs to nobody can open the files that the dynamic linker preloads,
 * which lie in this program's tree. */
static int is_tree_open(void)
{
	char path[PATH_MAX] = "";
	struct stat state;
	if (readlink("/proc/self/exe", path, sizeof(path) - 1) <= 0)
		broken("/proc/self/exe");
	for (char *end; (end = strrchr(path, '/')) != NULL && end != path;) {
		*end = '\0';
		if (stat(path, &state) != 0 || (state.st_mode & S_IXOTH) == 0)
			return 0;
	}
	return 1;
}

static void by_exec(void (*into)(void))
{
	if (!is_tree_open())
		skip("the tree is closed to other users");
	become_user(OWNER);
	int s = set_of(1);
	into();
	pid_t child = fork();
	if (child == 0)
		become("give one", s);
	say("the program inside: %s", ended(finish(child)));
	say("semaphore: %s", got(semctl(s, 0, GETVAL)));
}

static void twice(void) { inside_twice(OWNER); }

CASE(userns_exec_of_the_owner_unmapped) { by_exec(enter); }
CASE(userns_exec_of_the_owner_as_root) { by_exec(inside_as_root); }
CASE(userns_exec_of_the_owner_inside_twice) { by_exec(twice); }

static void exec_of_stranger(int s, void (*into)(void))
{
	pid_t child = fork();
	if (child == 0) {
		become_user(STRANGER);
		into();
		become("give one", s);
	}
	say("the stranger's program inside: %s", ended(finish(child)));
	say("semaphore: %s", got(semctl(s, 0, GETVAL)));
}

static void stranger_twice(void)
{
	enter();
	map_ids(0, STRANGER);
	enter();
	map_ids(OWNER, 0);
}

CASE(userns_exec_of_a_stranger)
{
	if (geteuid() != 0)
		skip("needs root");
	int s = set_of(1);
	exec_of_stranger(s, enter);
	exec_of_stranger(s, inside_as_root);
	exec_of_stranger(s, stranger_twice);
}

/* POSIX objects are files: capabilities inside count where the namespace knows the owner. */
static const char *name;

static void use_object(int flags)
{
	struct stat state;
	int file = shm_open(name, flags, 0600);
	say("shm_open: %s", file < 0 ? errno_name(errno) : "ok");
	if (file < 0)
		return;
	if (fstat(file, &state) == 0)
		say("of %u:%u", state.st_uid, state.st_gid);
	say("fchown to %d: %s", OWNER, got(fchown(file, OWNER, (gid_t)-1)));
	say("fchown to 0: %s", got(fchown(file, 0, (gid_t)-1)));
	say("fchmod: %s", got(fchmod(file, 0600)));
	close(file);
}

CASE(userns_posix_owner)
{
	name = fresh_name();
	become_user(OWNER);
	use_object(O_CREAT | O_EXCL | O_RDWR);
	enter();
	use_object(O_RDWR);
	map_ids(0, OWNER);
	use_object(O_RDWR);
	say("shm_unlink: %s", got(shm_unlink(name)));
}

static void posix_stranger(void *context)
{
	(void)context;
	become_user(STRANGER);
	inside_as_root();
	use_object(O_RDONLY);
	use_object(O_RDWR);
	say("shm_unlink: %s", got(shm_unlink(name)));
}

CASE(userns_posix_stranger_is_root_inside)
{
	if (geteuid() != 0)
		skip("needs root");
	name = fresh_name();
	use_object(O_CREAT | O_EXCL | O_RDWR);
	aside(posix_stranger);
}

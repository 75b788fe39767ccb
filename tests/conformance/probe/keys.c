/* ftok(3), keys and ids across the three kinds. sysvipc(7). */
#ifndef _FORTIFY_SOURCE
#define _FORTIFY_SOURCE 2
#endif
#include "case.h"

#include <sys/stat.h>

CASE(key_kinds_are_independent)
{
	key_t key = fresh_key();
	say("segment: %s", made(track_segment(shmget(key, 100, IPC_CREAT | IPC_EXCL | 0600))));
	say("set: %s", made(track_set(semget(key, 1, IPC_CREAT | IPC_EXCL | 0600))));
	say("queue: %s", made(track_queue(msgget(key, IPC_CREAT | IPC_EXCL | 0600))));
}

CASE(key_kinds_removed_separately)
{
	key_t key = fresh_key();
	int a = track_segment(shmget(key, 100, IPC_CREAT | 0600)),
	    s = track_set(semget(key, 1, IPC_CREAT | 0600));
	int q = track_queue(msgget(key, IPC_CREAT | 0600));
	shmctl(a, IPC_RMID, NULL);
	say("set: %s", yes(semget(key, 1, 0) == s));
	say("queue: %s", yes(msgget(key, 0) == q));
	say("segment: %s", got(shmget(key, 100, 0)));
}

CASE(key_negative)
{
	key_t key = (key_t)((unsigned)fresh_key() | 0x80000000u);
	int a = track_segment(shmget(key, 100, IPC_CREAT | 0600));
	say("a key below zero: %s, opens: %s", made(a), yes(shmget(key, 0, 0) == a));
}

CASE(ftok_same_path_same_key)
{
	key_t a = ftok("/etc/passwd", 'a');
	say("%s", made(a == -1 ? -1 : 1));
	say("again the same: %s", yes(ftok("/etc/passwd", 'a') == a));
	say("through ..: %s", yes(ftok("/etc/../etc/passwd", 'a') == a));
	say("another project: %s", yes(ftok("/etc/passwd", 'b') != a));
	say("another file: %s", yes(ftok("/etc/group", 'a') != a));
	say("never IPC_PRIVATE: %s", yes(a != IPC_PRIVATE));
}

CASE(ftok_project_low_byte)
{
	key_t a = ftok("/etc/passwd", 1);
	say("257 is 1: %s", yes(ftok("/etc/passwd", 257) == a));
	say("top byte is the project: %s", yes(((unsigned)a >> 24) == 1));
}

CASE(ftok_missing)
{
	say("%s", got(ftok("/no/such/file", 1)));
	say("empty: %s", got(ftok("", 1)));
}

CASE(ftok_symlink_and_directory)
{
	char directory[] = "/tmp/probe-XXXXXX", link[64];
	if (mkdtemp(directory) == NULL)
		broken("mkdtemp");
	snprintf(link, sizeof link, "%s/link", directory);
	if (symlink("/etc/passwd", link) != 0)
		broken("symlink");
	say("through a symbolic link: same %s", yes(ftok(link, 5) == ftok("/etc/passwd", 5)));
	say("a directory: %s", made(ftok(directory, 5) == -1 ? -1 : 1));
	unlink(link);
	rmdir(directory);
	say("after its removal: %s", got(ftok(directory, 5)));
}

CASE(ftok_hard_link)
{
	char directory[] = "/tmp/probe-XXXXXX", one[64], two[64];
	if (mkdtemp(directory) == NULL)
		broken("mkdtemp");
	snprintf(one, sizeof one, "%s/one", directory);
	snprintf(two, sizeof two, "%s/two", directory);
	close(open(one, O_CREAT | O_WRONLY, 0600));
	if (link(one, two) != 0)
		broken("link");
	say("a hard link: same %s", yes(ftok(one, 5) == ftok(two, 5)));
	unlink(one);
	unlink(two);
	rmdir(directory);
}

/* On the kernel the list of segments is there; where they are the pool's it is not. */
CASE(key_list_by_every_call)
{
	const char *path = "/proc/sysvipc/shm";
	volatile int flags = O_RDONLY; /* so that a fortified open is called */
	bool there = access(path, R_OK) == 0;
	FILE *file = fopen(path, "r");
	say("fopen agrees: %s", yes((file != NULL) == there));
	say("open: %s", yes((open(path, flags) >= 0) == there));
	say("openat: %s", yes((openat(AT_FDCWD, path, flags) >= 0) == there));
	say("faccessat: %s", yes((faccessat(AT_FDCWD, path, R_OK, 0) == 0) == there));
	say("euidaccess: %s", yes((euidaccess(path, R_OK) == 0) == there));
	say("eaccess: %s", yes((eaccess(path, R_OK) == 0) == there));
	file = file ? file : fopen("/dev/null", "r");
	say("freopen: %s", yes((freopen(path, "r", file) != NULL) == there));
	say("freopen of the same: %s", yes(freopen(NULL, "r", stderr) != NULL));
}

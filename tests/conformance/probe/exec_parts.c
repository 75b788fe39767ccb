/* What this program does when a case has exec'd it: probe --part NAME NUMBER. */
#include "case.h"

#include <sys/resource.h>
#include <sys/stat.h>

static void leave_no_descriptor(void)
{
	while (dup(1) != -1)
		;
}

static void allow_no_descriptor(void)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* What an inherited descriptor shows: 0 for an object with the words that it should have. */
static int read_object(int file)
{
	struct stat state;
	if (fstat(file, &state) != 0)
		return errno == EBADF ? 10 : 11;
	if (state.st_size != 4096)
		return 12;
	char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (at == MAP_FAILED)
		return 13;
	if (strcmp(at, "for exec") != 0)
		return 14;
	strcpy(at, "from exec");
	return 0;
}

int play_part(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	int number = atoi(argv[3]);
	if (strcmp(argv[2], "exit") == 0)
		return number;
	if (strcmp(argv[2], "linger") == 0)
		for (;;)
			pause();
	if (strcmp(argv[2], "take one") == 0) /* from semaphore 0 of the set */
		return step(number, 0, -1, 0) != 0;
	if (strcmp(argv[2], "give one") == 0)
		return step(number, 0, +1, 0) != 0;
	if (strcmp(argv[2], "give one, all descriptors taken") == 0) {
		leave_no_descriptor();
		return step(number, 0, +1, 0) == 0 ? 0 : errno;
	}
	if (strcmp(argv[2], "give one, no descriptor allowed") == 0) {
		allow_no_descriptor();
		return step(number, 0, +1, 0) == 0 ? 0 : errno;
	}
	if (strcmp(argv[2], "send one") == 0)
		return put(number, 1, "sent", 0) != 0;
	if (strcmp(argv[2], "object") == 0)
		return read_object(number);
	if (strcmp(argv[2], "count attaches") == 0) {
		struct shmid_ds ds;
		return shmctl(number, IPC_STAT, &ds) == 0 ? (int)ds.shm_nattch : 99;
	}
	return 2;
}

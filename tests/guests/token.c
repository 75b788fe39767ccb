/* For copied_guest: token take|give NUMBER, and what has come of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sem.h>

int main(int count, char **words)
{
	int set = semget(0x4711, 3, IPC_CREAT | 0666);
	struct sembuf change = { .sem_num = (unsigned short)atoi(words[count - 1]),
		.sem_op = strcmp(words[1], "give") ? -1 : 1 };
	printf("semop: %s\n", set < 0 || semop(set, &change, 1) ? strerror(errno) : "done");
	return 0;
}

/* The file behind a descriptor of a POSIX object, in the open and forged:
 *   marker make NAME TEXT
 *       makes an object of mode 0600 that holds TEXT, and prints the name of the file
 *   marker forge FILE PROGRAM WORD...
 *       makes a file of that name without the pool, as descriptor 9, and executes PROGRAM
 *   marker pass FILE PROGRAM WORD...
 *       the same, but descriptor 9 is a socket, through which the file is sent
 *   marker keep UID PROGRAM WORD...
 *       opens the object $NAME as descriptor 9, becomes the user UID, and executes PROGRAM
 *   marker read
 *       prints what descriptor 9 holds
 *   marker receive
 *       prints what a descriptor holds that comes through the socket */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILE_NUMBER 9
#define SEALS (F_SEAL_SEAL | F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

static void must(int works, const char *what)
{
	if (!works) {
		perror(what);
		exit(1);
	}
}

static void make(const char *name, const char *text)
{
	int file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
	must(file >= 0 && !ftruncate(file, 4096), "shm_open");
	must(pwrite(file, text, strlen(text), 0) == (ssize_t)strlen(text), "pwrite");
	char path[64], shown[256] = "";
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	must(readlink(path, shown, sizeof shown - 1) > 0, "readlink");
	printf("%s\n", shown);
}

static int forged(const char *name)
{
	int file = memfd_create(name, MFD_ALLOW_SEALING);
	must(file >= 0 && !fcntl(file, F_ADD_SEALS, SEALS), "memfd_create");
	return file;
}

static void forge(const char *name)
{
	must(dup2(forged(name), FILE_NUMBER) == FILE_NUMBER, "dup2");
}

/* One byte with a descriptor beside it. */
struct parcel {
	char byte;
	struct iovec part;
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} beside;
	struct msghdr message;
};

static struct msghdr *wrap(struct parcel *parcel)
{
	parcel->part = (struct iovec){ &parcel->byte, 1 };
	parcel->message = (struct msghdr){
		.msg_iov = &parcel->part,
		.msg_iovlen = 1,
		.msg_control = &parcel->beside,
		.msg_controllen = sizeof parcel->beside,
	};
	return &parcel->message;
}

static void pass(const char *name)
{
	int ends[2], file = forged(name);
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
	struct parcel parcel = { 0 };
	struct msghdr *message = wrap(&parcel);
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	*header = (struct cmsghdr){
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
		.cmsg_len = CMSG_LEN(sizeof file),
	};
	memcpy(CMSG_DATA(header), &file, sizeof file);
	must(sendmsg(ends[0], message, 0) == 1, "sendmsg");
	close(file);
	must(dup2(ends[1], FILE_NUMBER) == FILE_NUMBER, "dup2");
}

static void receive(void)
{
	struct parcel parcel = { 0 };
	struct msghdr *message = wrap(&parcel);
	must(recvmsg(FILE_NUMBER, message, 0) == 1, "recvmsg");
	int file;
	memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(message)), sizeof file);
	must(dup2(file, FILE_NUMBER) == FILE_NUMBER, "dup2");
}

static void keep(const char *uid)
{
	int file = shm_open(getenv("NAME"), O_RDWR, 0);
	must(file >= 0 && dup2(file, FILE_NUMBER) == FILE_NUMBER, "shm_open");
	must(!setgid(atoi(uid)) && !setuid(atoi(uid)), "setuid");
}

static void read_all(void)
{
	char text[4096] = "";
	ssize_t bytes = pread(FILE_NUMBER, text, sizeof text - 1, 0);
	printf("%s\n", bytes > 0 ? text : "nothing");
}

int main(int count, char **words)
{
	const char *verb = count > 1 ? words[1] : "";
	if (!strcmp(verb, "make") && count == 4)
		make(words[2], words[3]);
	else if (!strcmp(verb, "read"))
		read_all();
	else if (!strcmp(verb, "receive")) {
		receive();
		read_all();
	} else if (count > 3) {
		if (!strcmp(verb, "forge"))
			forge(words[2]);
		else if (!strcmp(verb, "pass"))
			pass(words[2]);
		else
			keep(words[2]);
		execvp(words[3], words + 3);
		must(0, words[3]);
	}
	return 0;
}

/* Writing a file in pieces of one size, or of one size after the other. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "named.h"
#include "run.h"

static const char *path;
static bool sync_each;
static int file = -1;

static void remove_file(void)
{
	if (file != -1)
		unlink(path);
	file = -1;
}

static unsigned char byte_of(size_t at) { return (unsigned char)(at * 31 + at / 4096); }

/* Seconds for all of it. What was written is read again. */
static double write_all(size_t size, size_t total)
{
	file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | (sync_each ? O_SYNC : 0), 0600);
	if (file == -1)
		give_up("'%s' cannot be made (it must not exist yet): %s", path, strerror(errno));
	unsigned char *piece = malloc(size), *back = malloc(size);
	if (piece == NULL || back == NULL)
		give_up("no memory for %zu bytes", size);
	for (size_t i = 0; i < size; i++)
		piece[i] = byte_of(i);
	uint64_t began = now_ns();
	for (size_t done = 0; done < total; done += size) {
		ssize_t wrote = write(file, piece, size);
		if (wrote == -1 && deadline_passed)
			give_up("broken off, or not done in time (--timeout)");
		if (wrote != (ssize_t)size)
			give_up("write of %zu bytes to '%s': %s", size, path,
				wrote == -1 ? strerror(errno) : "only a part was written");
		if (deadline_passed)
			give_up("broken off, or not done in time (--timeout)");
	}
	double took = (double)(now_ns() - began) / 1e9;
	if (lseek(file, 0, SEEK_SET) != 0)
		give_up_call("lseek");
	for (size_t done = 0; done < total; done += size) {
		ssize_t got = read(file, back, size);
		if (got != (ssize_t)size || memcmp(piece, back, size) != 0)
			give_up("what is read from '%s' at %zu is not what was written", path,
				done);
	}
	close(file);
	remove_file();
	free(piece);
	free(back);
	return took;
}

int main(int argc, char **argv)
{
	const char *sizes = "64..262144";
	long total = 16 << 20, timeout = 600;
	const struct named options[] = {
		{ "size", "N|A..B",
			"bytes a call; A..B: each power of two times A up to B (default 64..262144)",
			.text = &sizes },
		{ "file", "PATH", "which is made, and removed", .text = &path },
		{ "total", "BYTES", "for each size (default 16 MiB)", .value = &total, .least = 1 },
		{ "sync", NULL, "every call returns when the data are on the device (O_SYNC)",
			.on = &sync_each },
		{ "timeout", "S", "give up after S seconds (default 600)", .value = &timeout,
			.least = 1 },
		{ NULL }
	};
	read_named(argc, argv,
		"Writes a file, reads it again, and prints bytes a second of the writing.",
		options);
	if (path == NULL) {
		fprintf(stderr, "--file PATH is needed; --help tells more\n");
		return 2;
	}
	char first[32] = "";
	const char *dots = strstr(sizes, "..");
	snprintf(first, sizeof first, "%.*s", dots ? (int)(dots - sizes) : 31, sizes);
	long size = number("size", first, 1), last = dots ? number("size", dots + 2, size) : size;
	start_deadline((int)timeout);
	on_failure = remove_file;
	char line[8192];
	int at = 0;
	double seconds = 0, bytes = 0, rate = 0;
	for (; size <= last; size *= 2) {
		size_t whole = (size_t)(total / size ? total / size : 1) * (size_t)size;
		double took = write_all((size_t)size, whole);
		seconds += took;
		bytes += (double)whole;
		rate = (double)whole / took;
		at += snprintf(line + at, sizeof line - (size_t)at,
			"%s{\"size\":%ld,\"bytes\":%zu,\"seconds\":%.9f,\"bytes_per_second\":%.0f}",
			at ? "," : "", size, whole, took, rate);
	}
	printf("{\"bench\":\"writes\",\"model\":\"none\",\"n\":%ld,\"ranks\":1,\"seconds\":%.9f,\"work\":%.0f,\"unit\":\"byte\",\"check\":0,"
	       "\"sync\":%s,\"bytes_per_second\":%.0f,\"sizes\":[%s]}\n",
		size / 2, seconds, bytes, sync_each ? "true" : "false", bytes / seconds, line);
	return 0;
}

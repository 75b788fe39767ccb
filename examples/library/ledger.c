/* A ledger that grows: a POSIX shared memory object, which programs under
 * `vshmem run --share posix-shm` find by shm_open(3). Each line is appended by an opening of its
 * own.
 *   ledger POOL add LINE
 *   ledger POOL show
 *   ledger POOL remove */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <vshmem.h>

static const char *const NAME = "/ledger";

static int fail(const char *tried, int result)
{
	fprintf(stderr, "ledger: cannot %s: %s\n", tried, strerror(-result));
	return 1;
}

/* Its memory may move when it grows: nobody has it attached then. */
static int add(vshmem_pool *pool, int id, const char *line)
{
	uint64_t end;
	void *memory;
	int result = vshmem_shm_bytes(pool, id, &end);
	if (result < 0)
		return fail("ask for its size", result);
	uint64_t bytes = end + strlen(line) + 1;
	if ((result = vshmem_shm_resize(pool, id, bytes)) < 0)
		return fail("make it longer", result);
	if ((result = vshmem_attach(pool, id, bytes, &memory)) < 0)
		return fail("attach it", result);
	memcpy((char *)memory + end, line, strlen(line));
	((char *)memory)[bytes - 1] = '\n';
	vshmem_release(pool, memory);
	return 0;
}

static int show(vshmem_pool *pool, int id)
{
	struct vshmem_shm_stat stat;
	void *memory;
	int result = vshmem_shm_stat(pool, id, &stat);
	if (result < 0)
		return fail("ask what it is", result);
	printf("%" PRIu64 " bytes of user %u, mode %03o, %u opening(s)\n", stat.bytes, stat.uid,
		stat.mode & 0777, stat.opens);
	if (stat.bytes == 0)
		return 0;
	if ((result = vshmem_attach(pool, id, stat.bytes, &memory)) < 0)
		return fail("attach it", result);
	fwrite(memory, 1, stat.bytes, stdout);
	vshmem_release(pool, memory);
	return 0;
}

int main(int argc, char **argv)
{
	vshmem_pool *pool;
	char message[512] = "";
	if (argc < 3 || (strcmp(argv[2], "add") == 0) != (argc == 4)) {
		fprintf(stderr, "usage: ledger POOL add LINE | show | remove\n");
		return 2;
	}
	if (vshmem_open(argv[1], &pool, message, sizeof message) < 0) {
		fprintf(stderr, "ledger: %s\n", message);
		return 1;
	}
	int result, id = vshmem_shm_open(pool, NAME, O_CREAT | O_RDWR, 0600, 0);
	if (id < 0)
		return fail("open it", id);
	if (argc == 4)
		result = add(pool, id, argv[3]);
	else if (strcmp(argv[2], "show") == 0)
		result = show(pool, id);
	else
		result = vshmem_shm_unlink(pool, NAME) < 0;
	vshmem_shm_close(pool, id);
	vshmem_close(pool);
	return result;
}

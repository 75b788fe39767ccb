/* What there is once in a process: the environment's words, the pool, what is said. */
#include "vshmem_fi.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../transport/number.h"
#include "../transport/port_size.h"

/* Lanes of a port when nobody says how many peers there are; all that a port can have. */
#define SENDERS        64
#define FEWEST_SENDERS 8
#define MOST_SENDERS   4096

struct vfi_parameters vfi_parameters;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static vshmem_pool *pool;
static pid_t opened_by;
static bool tried;

void vfi_say(const char *format, ...)
{
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fprintf(stderr, "vshmem: %s\n", text);
	vfi_log(FI_LOG_WARN, FI_LOG_CORE, "%s", text);
}

/* A number of the environment, perhaps with k, m or g. */
static int64_t number(const char *name, int64_t least, int64_t most, int64_t value)
{
	char *word = NULL;
	int64_t found;
	if (vfi_core.param_get(&vfi_provider, name, &word) != 0 || !word)
		return value;
	if (vshmem_parse_number(word, &found) && found >= least && found <= most)
		return found;
	vfi_say("parameter %s=%s: not a number from %lld to %lld; it is taken to be %lld. Give one, "
		"as in FI_VSHMEM_PEERS=64",
		name, word, (long long)least, (long long)most, (long long)value);
	return value;
}

void vfi_read_parameters(void)
{
	static const struct {
		const char *name, *help;
	} rows[] = {
		{ "pool",
			"Pool to join; otherwise the one that VSHMEM_POOL names, or that this "
			"guest was given" },
		{ "port_bytes", "Bytes of an endpoint's port at most (4m); less in a small pool" },
		{ "lane_bytes", "Bytes of a lane, of each peer that sends, at most (256k)" },
		{ "peers", "Peers that may send to an endpoint (64, or the job's size)" },
		{ "cma",
			"Bytes from which on a message between processes of a kernel is copied "
			"directly, by cross-memory attach (40k); 0: none is" },
	};
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++)
		vfi_core.param_define(
			&vfi_provider, rows[row].name, FI_PARAM_STRING, "%s", rows[row].help);
	vfi_core.param_get(&vfi_provider, "pool", &vfi_parameters.pool);
	vfi_parameters.port_bytes = (size_t)number("port_bytes", 4096, INT64_C(1) << 40, 4 << 20);
	vfi_parameters.lane_bytes = (size_t)number("lane_bytes", 4096, 4 << 20, 256 << 10);
	vfi_parameters.peers = (int)number("peers", 1, 4096, 0);
	vfi_parameters.cross_memory = (size_t)number("cma", 0, INT64_C(1) << 40, 40 << 10);
}

/* A child opens its own; what its parent had is of no use to it. */
void vfi_pool_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	pool = NULL;
	tried = false;
}

vshmem_pool *vfi_pool(void)
{
	pthread_mutex_lock(&lock);
	/* Of a fork that calls no handlers (_Fork). */
	if (tried && opened_by != getpid()) {
		pool = NULL;
		tried = false;
	}
	if (!tried) {
		const char *name = vfi_parameters.pool && *vfi_parameters.pool ? vfi_parameters.pool
									       : NULL;
		char message[512] = "";
		tried = true;
		opened_by = getpid();
		if (vshmem_open(name, &pool, message, sizeof(message)) != 0) {
			pool = NULL;
			/* A path to providers may be set for programs that use no pool. */
			vfi_log(name || getenv("VSHMEM_POOL") ? FI_LOG_WARN : FI_LOG_INFO,
				FI_LOG_CORE, "%s; it is not offered", message);
		}
	}
	vshmem_pool *found = pool;
	pthread_mutex_unlock(&lock);
	return found;
}

void vfi_close_pool(void)
{
	pthread_mutex_lock(&lock);
	if (pool && opened_by == getpid())
		vshmem_close(pool);
	pool = NULL;
	tried = false;
	pthread_mutex_unlock(&lock);
}

uint32_t vfi_job_size(void)
{
	static const char *const names[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE",
		"SLURM_NTASKS", "MPI_LOCALNRANKS" };
	uint32_t size = 0;
	for (size_t nth = 0; nth < sizeof(names) / sizeof(names[0]); nth++) {
		const char *word = getenv(names[nth]);
		unsigned long found = word ? strtoul(word, NULL, 10) : 0;
		if (found > size && found <= 4096)
			size = (uint32_t)found;
	}
	return size;
}

/* The fewer there are, the longer their lanes. Of a job whose size is known twice as many: it may
 * start others. What an address vector was opened for says less: Open MPI asks for room for all
 * slots that its launcher was given, of which a job may use few. */
uint32_t vfi_senders(uint32_t expected)
{
	uint32_t job = vfi_job_size(), senders = expected > SENDERS ? expected : SENDERS;
	if (job)
		senders = 2 * job;
	if (vfi_parameters.peers)
		senders = (uint32_t)vfi_parameters.peers;
	uint32_t power = FEWEST_SENDERS;
	while (power < senders && power < MOST_SENDERS)
		power *= 2;
	return power;
}

uint64_t vfi_port_bytes(const vshmem_pool *pool, uint32_t senders)
{
	uint64_t bytes = vshmem_port_bytes(pool, senders, vfi_parameters.port_bytes);
	uint64_t least = (uint64_t)senders * VFI_LEAST_LANE_BYTES;
	return bytes < least ? least : bytes;
}

size_t vfi_inject_bytes(const vshmem_pool *pool)
{
	uint32_t senders = vfi_senders(0);
	uint64_t budget = vfi_port_bytes(pool, senders), lane = VFI_LEAST_LANE_BYTES;
	while (lane * 2 * senders <= budget && lane * 2 <= vfi_parameters.lane_bytes)
		lane *= 2;
	/* The longest message is a quarter of a lane. */
	uint64_t most = lane / 4 - VFI_LANE_HEADER_BYTES - sizeof(struct vshmem_wire);
	return most < VFI_INJECT_BYTES ? (size_t)most : VFI_INJECT_BYTES;
}

int vfi_no_bind(struct fid *fid, struct fid *bound, uint64_t flags)
{
	(void)fid, (void)bound, (void)flags;
	return -FI_ENOSYS;
}

int vfi_no_control(struct fid *fid, int command, void *argument)
{
	(void)fid, (void)command, (void)argument;
	return -FI_ENOSYS;
}

int vfi_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid, (void)name, (void)flags, (void)ops, (void)context;
	return -FI_ENOSYS;
}

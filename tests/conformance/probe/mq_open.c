/* mq_open(3), mq_close(3), mq_unlink(3): names, flags, modes, attributes. */
#include "mq.h"

#include <sys/stat.h>

/* Opens a name to make a queue that is small: a user's queues of all processes together have
 * 819,200 bytes (RLIMIT_MSGQUEUE), which is nine of the size that none is asked for. */
static mqd_t make(const char *name, int flags, int mode)
{
	return mq_open(name, O_RDWR | O_CREAT | flags, mode,
		&(struct mq_attr) { .mq_maxmsg = 4, .mq_msgsize = 64 });
}

/* As make(), of a queue that must come about. */
static void make_closed(const char *name, int mode)
{
	mqd_t queue = make(name, O_EXCL, mode);
	if (queue == (mqd_t)-1)
		broken("mq_open: %s", errno_name(errno));
	mq_close(queue);
}

static const char *opened(mqd_t queue)
{
	const char *answer = made(queue);
	if (queue != (mqd_t)-1)
		mq_close(queue);
	return answer;
}

CASE(mq_open_makes_and_finds)
{
	const char *name = fresh_name();
	say("absent: %s", opened(mq_open(name, O_RDWR)));
	say("made: %s", opened(make(name, 0, 0600)));
	say("found: %s", opened(mq_open(name, O_RDWR)));
	say("made again: %s", opened(make(name, 0, 0600)));
	say("exclusively: %s", opened(make(name, O_EXCL, 0600)));
}

CASE(mq_open_exclusive_means_nothing_alone)
{
	const char *name = fresh_name();
	say("absent: %s", opened(mq_open(name, O_RDWR | O_EXCL)));
	make_closed(name, 0600);
	say("there: %s", opened(mq_open(name, O_RDWR | O_EXCL)));
}

/* A name that is none. */
static void try_name(const char *name)
{
	say("open: %s", opened(mq_open(name, O_RDWR)));
	say("make: %s", opened(make(name, 0, 0600)));
	say("unlink: %s", got(mq_unlink(name)));
}

CASE(mq_name_without_slash) { try_name("probe"); }
CASE(mq_name_of_a_slash) { try_name("/"); }
CASE(mq_name_empty) { try_name(""); }
CASE(mq_name_with_two_slashes) { try_name("//probe"); }
CASE(mq_name_with_a_slash_inside) { try_name("/probe/a"); }
CASE(mq_name_with_a_slash_behind) { try_name("/probe-behind/"); }
CASE(mq_name_dot) { try_name("/."); }
CASE(mq_name_dots) { try_name("/.."); }

CASE(mq_name_lengths)
{
	static const int lengths[] = { 254, 255, 256, 300, 5000 };
	static char name[6000];
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		memset(name, 'n', sizeof name);
		snprintf(name, sizeof name, "%s-", fresh_name());
		name[strlen(name)] = 'n';
		name[lengths[i] + 1] = 0;
		say("%d: %s", lengths[i], opened(make(name, 0, 0600)));
		say("unlink: %s", got(mq_unlink(name)));
	}
}

CASE(mq_names_differ_in_one_byte)
{
	char other[64];
	const char *name = fresh_name();
	snprintf(other, sizeof other, "%sx", name);
	make_closed(name, 0600);
	say("%s", opened(mq_open(other, O_RDWR)));
}

CASE(mq_open_for_reading)
{
	mq_of(4, 64, 0);
	mqd_t queue = mq_open(mq_last_name(), O_RDONLY | O_NONBLOCK);
	say("send: %s", got(mq_put(queue, "a", 0)));
	say("receive: %s", mq_taken(queue));
}

CASE(mq_open_for_writing)
{
	char text[64];
	mq_of(4, 64, 0);
	mqd_t queue = mq_open(mq_last_name(), O_WRONLY);
	say("send: %s", got(mq_put(queue, "a", 0)));
	say("receive: %s", mq_taken(queue));
	say("with too little room: %s", got(mq_receive(queue, text, 1, NULL)));
	say("%s", mq_described(queue));
}

CASE(mq_open_for_nothing)
{
	mq_of(4, 64, 0);
	say("there: %s", opened(mq_open(mq_last_name(), O_WRONLY | O_RDWR)));
}

/* ---- attributes ---- */

static void make_sized(void *context)
{
	const long *size = context;
	struct mq_attr wanted = { .mq_maxmsg = size[0], .mq_msgsize = size[1] };
	mqd_t queue = mq_open(fresh_name(), O_RDWR | O_CREAT, 0600, &wanted);
	if (queue == (mqd_t)-1)
		say("%ld x %ld: %s", size[0], size[1], got(-1));
	else
		say("%ld x %ld: %s", size[0], size[1], mq_described(queue));
}

#define SIZED(name_, messages_, bytes_)                         \
	CASE(mq_size_##name_)                                   \
	{                                                       \
		make_sized((long[]){ messages_, bytes_ });      \
	}

SIZED(smallest, 1, 1)
SIZED(of_no_message, 0, 1)
SIZED(of_no_byte, 1, 0)
SIZED(of_negative_messages, -1, 1)
SIZED(of_negative_bytes, 1, -1)
SIZED(usual, 10, 8192)
SIZED(of_seven, 7, 100)
SIZED(of_eight, 8, 100)
SIZED(of_nine, 9, 4096)
SIZED(of_too_many_messages, 65537, 1)
SIZED(of_too_many_bytes, 1, 16777217)
SIZED(of_more_than_32_bits, 1L << 32, 1)

CASE(mq_size_that_an_ordinary_user_may_not_have)
{
	as_ordinary(make_sized, (long[]){ 10, 8192 });
	as_ordinary(make_sized, (long[]){ 11, 8192 });
	as_ordinary(make_sized, (long[]){ 10, 8193 });
}

CASE(mq_size_when_none_is_asked_for)
{
	mqd_t queue = mq_open(fresh_name(), O_RDWR | O_CREAT, 0600, NULL);
	say("%s", mq_described(queue));
}

CASE(mq_size_means_nothing_when_it_is_there)
{
	struct mq_attr invalid = { .mq_maxmsg = 0, .mq_msgsize = -1 };
	mq_of(3, 30, 0);
	mqd_t queue = mq_open(mq_last_name(), O_RDWR | O_CREAT, 0600, &invalid);
	say("%s: %s", made(queue), mq_described(queue));
}

CASE(mq_size_cannot_be_read)
{
	say("%s", opened(mq_open(fresh_name(), O_RDWR | O_CREAT, 0600, (struct mq_attr *)8)));
}

CASE(mq_open_takes_nonblock_from_its_flags_alone)
{
	struct mq_attr wanted = { .mq_flags = O_NONBLOCK, .mq_maxmsg = 2, .mq_msgsize = 2 };
	const char *name = fresh_name();
	say("%s", mq_described(mq_open(name, O_RDWR | O_CREAT, 0600, &wanted)));
	say("%s", mq_described(mq_open(name, O_RDWR | O_NONBLOCK)));
}

/* ---- modes ---- */

CASE(mq_mode_is_cut_by_the_umask)
{
	static const int modes[] = { 0666, 0777, 0600, 0, 0640 };
	umask(027);
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		struct stat state;
		mqd_t queue = make(fresh_name(), 0, modes[i]);
		if (queue == (mqd_t)-1)
			say("mq_open: %s", got(-1));
		else if (fstat(queue, &state) != 0)
			say("fstat: %s", got(-1));
		else
			say("%o: %o", modes[i], state.st_mode & 0777);
	}
}

static void open_named(void *context)
{
	const char *name = context;
	say("to read: %s", opened(mq_open(name, O_RDONLY)));
	say("to write: %s", opened(mq_open(name, O_WRONLY)));
	say("for both: %s", opened(mq_open(name, O_RDWR)));
	say("to make: %s", opened(make(name, 0, 0600)));
	say("exclusively: %s", opened(make(name, O_EXCL, 0600)));
	say("unlink: %s", got(mq_unlink(name)));
}

#define MODE(name_, mode_)                                                          \
	CASE(mq_mode_##name_##_for_others)                                          \
	{                                                                           \
		const char *name = fresh_name();                                    \
		umask(0);                                                           \
		make_closed(name, mode_);                                           \
		as_nobody(open_named, (void *)name);                                \
	}

MODE(600, 0600)
MODE(604, 0604)
MODE(602, 0602)
MODE(606, 0606)

/* ---- the end of names and descriptors ---- */

CASE(mq_unlink_absent)
{
	say("%s", got(mq_unlink(fresh_name())));
}

CASE(mq_unlinked_goes_on)
{
	mqd_t queue = mq_of(4, 64, O_NONBLOCK);
	mq_put(queue, "before", 1);
	say("unlink: %s", got(mq_unlink(mq_last_name())));
	say("again: %s", got(mq_unlink(mq_last_name())));
	say("open: %s", opened(mq_open(mq_last_name(), O_RDWR)));
	say("send: %s, then %s", got(mq_put(queue, "after", 0)), mq_described(queue));
	say("%s", mq_taken(queue));
	say("%s", mq_taken(queue));
}

CASE(mq_unlinked_name_is_another_queue)
{
	mqd_t first = mq_of(4, 64, O_NONBLOCK);
	const char *name = mq_last_name();
	mq_unlink(name);
	mqd_t second = make(name, O_EXCL | O_NONBLOCK, 0600);
	say("%s", made(second));
	mq_put(first, "to the first", 0);
	say("%s", mq_taken(second));
	say("%s", mq_taken(first));
}

CASE(mq_messages_outlive_descriptors)
{
	mqd_t queue = mq_of(4, 64, 0);
	mq_put(queue, "kept", 5);
	mq_close(queue);
	queue = mq_open(mq_last_name(), O_RDWR);
	say("%s: %s", mq_described(queue), mq_taken(queue));
}

CASE(mq_close_twice)
{
	mqd_t queue = mq_of(4, 64, 0);
	struct mq_attr state;
	say("%s", got(mq_close(queue)));
	say("%s", got(mq_close(queue)));
	say("%s", got(mq_getattr(queue, &state)));
	say("send: %s", got(mq_put(queue, "a", 0)));
	say("receive: %s", mq_taken(queue));
}

CASE(mq_close_by_close)
{
	mqd_t queue = mq_of(4, 64, 0);
	say("%s", got(close(queue)));
	say("%s", got(mq_put(queue, "a", 0)));
}

/* Connections that texts and words go by (pair.h) when a pair has no lanes: each from one process
 * to another, made by the one that sends.
 *
 * Who connects shows the secret that the other has published to the job, and is shown its own in
 * turn; nothing else that comes before is believed, and no more than its fixed length is read. No
 * call here waits.
 */
#ifndef VSHMEM_STREAM_H
#define VSHMEM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <time.h>

/* Where a process accepts connections. */
struct vshmem_place {
	uint8_t secret[16];
	uint16_t port, count;
	uint8_t addresses[4][16]; /* of IPv6, or of IPv4 in IPv6 */
};

/* From this process to another. All zero: none. */
struct vshmem_stream {
	enum { VSHMEM_CLOSED, VSHMEM_CONNECTING, VSHMEM_AWAITING, VSHMEM_OPEN } state;
	int fd;
	unsigned nth; /* address */
	time_t since; /* of this attempt, or of the last */
	bool failed; /* an attempt has, since the last success */
	uint32_t attempts;
	bool ending; /* when all is written */
	size_t greeted;
	uint8_t answer[16];
	uint8_t *buffer; /* of what was not written yet: a frame lies in one piece */
	size_t from, end;
};

/* To this process. FD below 1: none. */
struct vshmem_source {
	int fd;
	uint32_t attempt; /* to connect: that of this one, or of the last */
	bool heard, ended; /* a frame has come; the last that will come */
	uint8_t *buffer;
	size_t from, end;
};

/* The longest text. */
#define VSHMEM_LONGEST (64 << 10)
struct vshmem_frame {
	uint32_t bytes;
	uint8_t word, tag;
	const uint8_t *text;
};

/* stream_accept.c */
/* Begins to listen, and says where. */
bool vshmem_accept_open(struct vshmem_place *own);
void vshmem_accept_close(void);
/* What who connects says first. */
struct vshmem_greeting {
	char kind[8];
	uint32_t from, to;
	uint32_t attempt; /* each has a larger number than those that were given up before it */
	uint8_t secret[16];
};
#define VSHMEM_GREETING "vshmem 1"
/* The next one that has shown OWN's secret: its descriptor, and what it has said; -1: none. It is
 * answered with the secret of the place that PLACE_OF has of it, if it is to be let in. */
int vshmem_accept(const struct vshmem_place *own, uint32_t to, struct vshmem_greeting *said,
	bool (*place_of)(const struct vshmem_greeting *said, struct vshmem_place *place));

/* stream.c */
time_t vshmem_seconds(void);
/* Goes on with connecting. 0: it is open; -EAGAIN: not yet; else no address has answered, and the
 * next call after a second begins anew. */
int vshmem_stream_connect(struct vshmem_stream *stream, uint32_t from, uint32_t to,
	const struct vshmem_place *own, const struct vshmem_place *there);
/* A frame into the buffer. -EAGAIN: there is no room, or no connection. */
int vshmem_stream_put(struct vshmem_stream *stream, uint8_t word, uint8_t tag,
	const struct iovec *parts, int count);
/* Writes what can be written. 0, or what is wrong with the connection. */
int vshmem_stream_flush(struct vshmem_stream *stream);
/* This is the last word: flushing then closes it. One that is not open yet is closed at once. */
void vshmem_stream_end(struct vshmem_stream *stream, uint8_t word);
void vshmem_stream_close(struct vshmem_stream *stream);

bool vshmem_source_open(struct vshmem_source *source, int fd, uint32_t attempt);
/* 1: a frame, which lies there until the next call but one of vshmem_source_done; 0: none yet;
 * -EPIPE: there is none any more; -EBADMSG: it makes no sense; else what is wrong. */
int vshmem_source_next(struct vshmem_source *source, struct vshmem_frame *frame);
void vshmem_source_done(struct vshmem_source *source, const struct vshmem_frame *frame);
void vshmem_source_close(struct vshmem_source *source);

#endif

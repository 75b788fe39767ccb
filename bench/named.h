/* Options of programs that have one role: a table instead of run.h's fixed set. */
#ifndef NAMED_H
#define NAMED_H

#include <stdbool.h>

struct named {
	const char *name, *argument, *does;
	/* One of these three is set. */
	long *value; /* of at least `least` */
	const char **text;
	bool *on;
	long least;
};

/* The table ends with a name of NULL. Exits with 2 where the options are not like that, and with 0
 * after --help. */
void read_named(int argc, char **argv, const char *does, const struct named *table);

#endif

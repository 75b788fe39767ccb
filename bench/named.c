#include "named.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

static _Noreturn void usage(
	FILE *out, const char *name, const char *does, const struct named *table)
{
	fprintf(out, "usage: %s [options]\n%s\n", name, does);
	for (; table->name; table++)
		fprintf(out, "  --%-12s %-5s %s\n", table->name,
			table->argument ? table->argument : "", table->does);
	exit(out == stderr ? 2 : 0);
}

void read_named(int argc, char **argv, const char *does, const struct named *table)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			usage(stdout, argv[0], does, table);
		const struct named *option = table;
		while (option->name
		        && (strncmp(argv[i], "--", 2) != 0
		                || strcmp(argv[i] + 2, option->name) != 0))
			option++;
		if (option->name == NULL || (option->on == NULL && i + 1 == argc))
			usage(stderr, argv[0], does, table);
		if (option->on)
			*option->on = true;
		else if (option->text)
			*option->text = argv[++i];
		else
			*option->value = number(option->name, argv[++i], option->least);
	}
}

/* The functions of the libfabric that has loaded this provider.
 *
 * It is not linked with any: MPI libraries bring their own, under names of their own, and a second
 * one beside it would make structures of another size.
 */
#define _GNU_SOURCE
#include "vshmem_fi.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>

struct vfi_core vfi_core;

bool vfi_core_find(const void *caller)
{
	const struct {
		const char *name;
		void *symbol;
	} rows[] = {
		{ "fi_version", &vfi_core.version },
		{ "fi_dupinfo", &vfi_core.dupinfo },
		{ "fi_freeinfo", &vfi_core.freeinfo },
		{ "fi_param_define", &vfi_core.param_define },
		{ "fi_param_get", &vfi_core.param_get },
		{ "fi_log", &vfi_core.log },
		{ "fi_log_enabled", &vfi_core.log_enabled },
	};
	Dl_info where;
	void *core = NULL;
	if (dladdr(caller, &where) && where.dli_fname)
		core = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	bool found = true;
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		void *function = core ? dlsym(core, rows[row].name) : NULL;
		if (!function)
			function = dlsym(RTLD_DEFAULT, rows[row].name);
		*(void **)rows[row].symbol = function;
		found = found && function;
	}
	if (core)
		dlclose(core);
	return found;
}

void vfi_log(enum fi_log_level level, enum fi_log_subsys subsystem, const char *format, ...)
{
	char text[1024];
	if (!vfi_core.log_enabled(&vfi_provider, level, subsystem))
		return;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	vfi_core.log(&vfi_provider, level, subsystem, "vshmem", 0, "%s\n", text);
}

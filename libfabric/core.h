/* Functions of the libfabric that has loaded this. */
#ifndef VFI_CORE_H
#define VFI_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

struct vfi_core {
	uint32_t (*version)(void);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	void (*freeinfo)(struct fi_info *info);
	int (*param_define)(const struct fi_provider *provider, const char *name,
		enum fi_param_type type, const char *help, ...);
	int (*param_get)(struct fi_provider *provider, const char *name, void *value);
	void (*log)(const struct fi_provider *provider, enum fi_log_level level,
		enum fi_log_subsys subsystem, const char *function, int line, const char *format,
		...);
	int (*log_enabled)(const struct fi_provider *provider, enum fi_log_level level,
		enum fi_log_subsys subsystem);
};
extern struct vfi_core vfi_core;
/* Finds them, by an address in it. */
bool vfi_core_find(const void *caller);
void vfi_log(enum fi_log_level level, enum fi_log_subsys subsystem, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif

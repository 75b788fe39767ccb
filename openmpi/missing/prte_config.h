/* Headers of PRRTE, which is Open MPI 5's mpirun, begin with one of this name, which distributions
 * do not install with them. */
#ifndef PRTE_CONFIG_H
#define PRTE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "prte_version.h"
#include "src/include/pmix_config.h"

#define PRTE_EXPORT                      __attribute__((visibility("default")))
#define PRTE_MAJOR_VERSION               PRTE_VERSION_MAJOR
#define PRTE_MINOR_VERSION               PRTE_VERSION_MINOR
#define PRTE_RELEASE_VERSION             PRTE_VERSION_RELEASE
#define PRTE_HIDE_UNUSED_PARAMS(...)
#define __prte_attribute_const__         __attribute__((const))
#define __prte_attribute_always_inline__ __attribute__((always_inline))

#endif

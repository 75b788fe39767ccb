/* mpirun of Open MPI 5.0, which is PRRTE 3.0. rtc.c is written for it. */
#include "prte_config.h"

#include "src/event/event-internal.h"
#include "src/mca/rtc/rtc.h"
#include "src/mca/state/state.h"
#include "src/runtime/prte_globals.h"
#include "src/util/pmix_output.h"

#define OF_COMPONENT(...)  __VA_ARGS__
#define number_of(process) ((process)->rank)
#define vshmem_say(...)    pmix_output(0, "vshmem: " __VA_ARGS__)

/* mpirun of Open MPI 4.1, and what it calls otherwise than that of 5.0 does. */
#include "orte_config.h"

#include "opal/mca/event/event.h"
#include "orte/mca/rtc/rtc.h"
#include "orte/mca/state/state.h"
#include "orte/runtime/orte_globals.h"
#include "orte/util/proc_info.h"

#include "log.h"

#define number_of(process)            ((process)->vpid)
#define prte_mca_rtc_vshmem_component mca_rtc_vshmem_component
#define prte_rtc_base_component_t     orte_rtc_base_component_t
#define prte_rtc_base_module_t        orte_rtc_base_module_t
#define pmix_mca_base_module_t        mca_base_module_t
#define OF_COMPONENT(...)             .base_version = { __VA_ARGS__ }
#define PRTE_EXPORT                   OPAL_DECLSPEC
#define PRTE_RTC_BASE_VERSION_1_0_0   ORTE_RTC_BASE_VERSION_1_0_0
#define pmix_mca_component_name       mca_component_name
#define pmix_mca_query_component      mca_query_component
#define prte_event_t                  opal_event_t
#define prte_event_base               orte_event_base
#define prte_event_evtimer_set        opal_event_evtimer_set
#define prte_event_evtimer_add        opal_event_evtimer_add
#define prte_event_evtimer_del        opal_event_evtimer_del
#define prte_node_t                   orte_node_t
#define prte_node_pool                orte_node_pool
#define pmix_pointer_array_get_item   opal_pointer_array_get_item
#define PRTE_PROC_IS_MASTER           ORTE_PROC_IS_HNP
#define PRTE_PROC_MY_NAME             ORTE_PROC_MY_NAME
#define PRTE_ACTIVATE_PROC_STATE      ORTE_ACTIVATE_PROC_STATE
#define PRTE_PROC_STATE_COMM_FAILED   ORTE_PROC_STATE_COMM_FAILED
#define PRTE_SUCCESS                  ORTE_SUCCESS
#define PRTE_ERR_NOT_AVAILABLE        ORTE_ERR_NOT_AVAILABLE

/* Memory that stops who reads it, in the middle of a system call too (userfaultfd(2)). */
#ifndef FABRIC_TRAP_H
#define FABRIC_TRAP_H

#include <stdbool.h>
#include <stdint.h>

/* Whether this process may. */
bool can_trap(void);
/* The next access to this page of private memory waits: a descriptor. */
int set_trap(uint8_t *page);
/* Until it does. Who says at the socket that it is past it has not read the page, and that ends
 * this process. */
void await_reader(int trap, int socket);
/* It goes on, with this page there. */
void release_trap(int trap, uint8_t *page, const uint8_t *instead);

#endif

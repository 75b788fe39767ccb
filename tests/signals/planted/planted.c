/* Stands where a program would look for `vshmem` after a chroot. */
#include <fcntl.h>
int main(void) { return open("/run-by-root", O_CREAT | O_WRONLY, 0600) < 0; }

/* Between the runner and the objects: which ids a case made, kept where a killed case cannot lose
 * them. */
#ifndef RUNNER_H
#define RUNNER_H

struct tracked;
struct tracked *new_tracking(void);
void use_tracking(struct tracked *t);
void remove_tracked(struct tracked *t);

#endif

#ifndef CHECK_GUESS_H
#define CHECK_GUESS_H

/* Answers of whom nobody has asked, and that nobody waits for. */
void guess(void);

#endif

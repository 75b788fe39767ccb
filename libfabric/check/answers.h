/* What peers send, and how they answer: truly, again, or nearly so. */
#ifndef CHECK_ANSWERS_H
#define CHECK_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "../wire.h"

/* Notes what the provider has sent, and is to be answered. */
void note_sent(uint32_t peer, uint8_t operation, const struct vshmem_wire *header, uint32_t bytes);
/* Answers one of these; AGAIN: perhaps once more later. */
void answer(bool again);
/* Nearly an answer. */
void answer_wrongly(void);
/* Acknowledges messages whose pieces have all come. */
void acknowledge(void);
/* Of a peer that is gone. */
void forget_pieces(uint32_t peer);

#endif

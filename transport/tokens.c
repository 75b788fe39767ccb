/* The table of operations that an answer is expected for.
 *
 * An entry's index and its generation are the token that an answer must bear. So an answer is
 * matched to one operation that is outstanding, and of the peer that it was asked of, whatever
 * comes. A generation has 48 bits: an entry that is used again each microsecond has a new one for
 * nine years.
 */
#include "peer.h"

#include <stdlib.h>

#define NONE  UINT32_MAX
#define FIRST 64
#define MOST  (1u << VSHMEM_TOKEN_BITS)

static bool grow(struct vshmem_tokens *tokens)
{
	uint32_t room = tokens->room ? tokens->room * 2 : FIRST;
	if (room > MOST)
		return false;
	struct vshmem_token *entries = realloc(tokens->entries, room * sizeof(*entries));
	if (!entries)
		return false;
	for (uint32_t index = tokens->room; index < room; index++)
		entries[index] = (struct vshmem_token) { .next = index + 1 < room ? index + 1
										  : NONE };
	tokens->entries = entries;
	tokens->first_free = tokens->room;
	tokens->last_free = room - 1;
	tokens->room = room;
	return true;
}

uint64_t vshmem_token_take(struct vshmem_peers *peers, struct vshmem_awaited *operation)
{
	struct vshmem_tokens *tokens = &peers->tokens;
	if ((tokens->room == 0 || tokens->first_free == NONE) && !grow(tokens))
		return 0;
	/* The one that was freed longest ago: generations then last longest. */
	uint32_t index = tokens->first_free;
	struct vshmem_token *entry = &tokens->entries[index];
	tokens->first_free = entry->next;
	if (tokens->first_free == NONE)
		tokens->last_free = NONE;
	entry->operation = operation;
	entry->generation = (entry->generation + 1) & UINT64_MAX >> VSHMEM_TOKEN_BITS;
	/* 0 is no token. */
	if (entry->generation == 0)
		entry->generation = 1;
	operation->token = entry->generation << VSHMEM_TOKEN_BITS | index;
	operation->peer->under_way++;
	return operation->token;
}

struct vshmem_awaited *vshmem_token_find(
	const struct vshmem_peers *peers, uint64_t token, uint8_t kind, uint64_t nonce)
{
	uint32_t index = (uint32_t)(token & (MOST - 1));
	if (index >= peers->tokens.room)
		return NULL;
	const struct vshmem_token *entry = &peers->tokens.entries[index];
	struct vshmem_awaited *operation = entry->operation;
	bool matched = operation && entry->generation == token >> VSHMEM_TOKEN_BITS
		&& operation->kind == kind && operation->peer->nonce == nonce;
	return matched ? operation : NULL;
}

void vshmem_token_leave(struct vshmem_peers *peers, struct vshmem_awaited *operation)
{
	struct vshmem_tokens *tokens = &peers->tokens;
	if (operation->token == 0)
		return;
	uint32_t index = (uint32_t)(operation->token & (MOST - 1));
	operation->token = 0;
	operation->peer->under_way--;
	tokens->entries[index].operation = NULL;
	tokens->entries[index].next = NONE;
	if (tokens->last_free == NONE)
		tokens->first_free = index;
	else
		tokens->entries[tokens->last_free].next = index;
	tokens->last_free = index;
}

void vshmem_tokens_close(struct vshmem_peers *peers)
{
	free(peers->tokens.entries);
	peers->tokens = (struct vshmem_tokens) { 0 };
}

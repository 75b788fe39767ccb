/* `vshmem` as the wheel carries it: the agent alone, which the library starts as
 * `vshmem agent --pool PLACE`, beside itself. */
#include <stdio.h>
#include <string.h>

/* Of libvshmem.a; see crates/vshmem_capi/src/agent.rs. */
extern int agent_of_vshmem_main(const char *place, int stays);

int main(int count, char **words)
{
	const char *place = NULL;
	int stays = 0, known = count > 1 && strcmp(words[1], "agent") == 0;
	for (int nth = 2; nth < count; nth++) {
		if (strcmp(words[nth], "--stay") == 0)
			stays = 1;
		else if (strcmp(words[nth], "--pool") == 0 && nth + 1 < count)
			place = words[++nth];
		else
			known = 0;
	}
	if (!known || !place) {
		fputs("vshmem: this is the agent of the Python package alone. Usage: vshmem agent "
		      "--pool PATH. Install vshmem for its other commands\n",
			stderr);
		return 2;
	}
	return agent_of_vshmem_main(place, stays);
}

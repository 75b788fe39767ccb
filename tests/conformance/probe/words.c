#include "case.h"

/* Several words may stand in one say(): a few buffers in turn. */
static char *room(void)
{
	static char buffers[16][48];
	static unsigned next;
	return buffers[next++ % 16];
}

const char *errno_name(int number)
{
	const char *name = strerrorname_np(number);
	return name ? name : "unknown errno";
}

const char *got(long result)
{
	int number = errno;
	char *text = room();
	if (result == -1)
		snprintf(text, 48, "-1 %s", errno_name(number));
	else
		snprintf(text, 48, "%ld", result);
	return text;
}

const char *made(long id) { return id == -1 ? got(-1) : id < -1 ? "negative" : "ok"; }

const char *refused(long result)
{
	if (result == -1 && (errno == EINVAL || errno == ENOMEM || errno == ENOSPC))
		return "refused";
	return result == -1 ? got(-1) : "accepted";
}

const char *who(pid_t pid, pid_t child)
{
	if (pid == 0)
		return "0";
	if (pid == getpid())
		return "self";
	return child != 0 && pid == child ? "child" : "other";
}

const char *when(time_t t)
{
	if (t == 0)
		return "zero";
	time_t now = time(NULL);
	return t >= now - 60 && t <= now + 2 ? "recent" : "odd";
}

const char *yes(bool b) { return b ? "yes" : "no"; }

const char *ended(int status)
{
	char *text = room();
	if (WIFSIGNALED(status))
		snprintf(text, 48, "SIG%s", sigabbrev_np(WTERMSIG(status)));
	else
		snprintf(text, 48, "exit %d", WEXITSTATUS(status));
	return text;
}

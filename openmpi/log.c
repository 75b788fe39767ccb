#include "log.h"

#include "opal_config.h"

#include <stdarg.h>
#include <stdio.h>

#include "opal/util/output.h"

void vshmem_say(const char *format, ...)
{
	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	opal_output(0, "vshmem: %s", text);
}

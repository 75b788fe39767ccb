#ifndef TEAM_OPENMP_H
#define TEAM_OPENMP_H

#include "team.h"

struct openmp_line {
	_Alignas(128) double values[MOST_VALUES];
};

struct openmp_room {
	struct openmp_line lines[2][MOST_RANKS];
};

#endif

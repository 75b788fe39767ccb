# What tests/mpi/compare.sh and tests/fabric/compare.sh make of lines "WHO CALL BYTES MEMORY NANOSECONDS", for another awk program:
# rows and columns in the order in which they come, and the median of each cell in microseconds.
function take(in_pool,   row) { row = $2 " " $3 " B" ($4 == "pool" ? in_pool : "")
	if (!(row in has_row)) { has_row[row] = 1; row_at[++rows] = row }
	if (!($1 in has_column)) { has_column[$1] = 1; column_at[++columns] = $1 }
	value[row, $1, ++count[row, $1]] = $5 / 1000 }
# Sets `least` as well. 0 where there is none.
function median(row, column,   c, i, j, t, a) { c = count[row, column]; for (i = 1; i <= c; i++) a[i] = value[row, column, i]
	for (i = 1; i <= c; i++) for (j = i + 1; j <= c; j++) if (a[j] < a[i]) { t = a[i]; a[i] = a[j]; a[j] = t }
	least = a[1]; return c ? a[int((c + 1) / 2)] : 0 }

# libvshmem.3 out of vshmem.h: comments are text, declarations are shown as they stand.
#   awk -v version=0.1.0 -f libvshmem.awk vshmem.h >libvshmem.3
function escaped(text) {
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	return "\\&" text
}
function end_code() {
	if (in_code) print ".fi\n.RE"
	in_code = 0
}
# A comment with nothing under it is about what follows it as a whole.
function flush_comment(is_heading,    i, first) {
	if (!comments) return
	end_code()
	first = comment[1]
	if (is_heading && comments == 1 && first ~ /^[A-Z][a-z]+$/) print ".SH " toupper(first)
	else if (is_heading && match(first, /^[A-Z][a-z]+: /)) {
		print ".SH " toupper(substr(first, 1, RLENGTH - 2))
		comment[1] = toupper(substr(first, RLENGTH + 1, 1)) substr(first, RLENGTH + 2)
		for (i = 1; i <= comments; i++) print comment[i] == "" ? ".PP" : escaped(comment[i])
	} else {
		print ".PP"
		for (i = 1; i <= comments; i++) print comment[i] == "" ? ".PP" : escaped(comment[i])
	}
	comments = 0
}
BEGIN {
	print ".TH libvshmem 3 \"\" \"vshmem " version "\" \"vshmem\""
	print ".SH NAME\nlibvshmem \\- memory, message channels and teams of a pool that virtual machines share"
	print ".SH SYNOPSIS\n.nf\n.B #include <vshmem.h>\n.PP\n.BI cc \" program.c \" \"$(pkg\\-config \\-\\-cflags \\-\\-libs vshmem)\"\n.fi\n.SH DESCRIPTION"
}
/^#|^extern|^}$/ && !in_struct { next }
/^\/\*/ || in_comment {
	line = $0
	in_comment = line !~ /\*\//
	sub(/ ?\*\/.*$/, "", line); sub(/^\/\* ?/, "", line); sub(/^ \* ?/, "", line)
	if (comments || line != "") comment[++comments] = line
	next
}
/^$/ { if (comments) flush_comment(1); else { end_code(); print ".PP" } next }
{
	flush_comment(0)
	if (!in_code) print ".RS 4\n.nf"
	in_code = 1
	if ($0 ~ /^struct.*\{$/) in_struct = 1
	if ($0 ~ /^};/) in_struct = 0
	print escaped($0)
}
END {
	flush_comment(1)
	end_code()
	print ".SH SEE ALSO\n.BR vshmem (1),\n.BR vshmem\\-pool\\-create (1),\n.BR shmget (2)"
}

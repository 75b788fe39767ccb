# Pages of section 3 out of vshmem.h: a page for each of its groups, named after the group's first function, one line for
# each other function that sends the reader there, and libvshmem.3, which lists them.
#   awk -v version=0.1.0 -v directory=man3 -v examples=/usr/share/doc/libvshmem-dev/examples -f libvshmem.awk vshmem.h
# A comment "Name: sentence." begins a group; what follows it after an empty line describes the group, as later comments
# without a declaration under them do. "Errors: " begins its list of errors, "Examples: " names programs. A comment above declarations is about these.
function escaped(text) {
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	return text
}
# A line of text: one that begins with a dot is no request.
function marked(text) { return "\\&" escaped(text) }
function lower_first(text) {
	return text ~ /^System V/ ? text : tolower(substr(text, 1, 1)) substr(text, 2)
}
# Lines FROM .. TO of the comment, with its paragraphs.
function paragraphs(from, to,    i, text) {
	for (i = from; i <= to; i++) text = text (comment[i] == "" ? ".PP" : marked(comment[i])) "\n"
	return text
}
function begin_group(    i, sentence) {
	match(comment[1], /^[A-Z][a-z]+: /)
	for (i = 1; i <= comments && comment[i] != ""; i++) sentence = sentence (i > 1 ? " " : "") comment[i]
	group++
	sub(/^[A-Z][a-z]+: /, "", sentence)
	sub(/\.$/, "", sentence)
	title[group] = sentence
	described[group] = i < comments ? paragraphs(i + 1, comments) : ""
}
# "-EIO: text" and "-EIO, -ENOENT: text" are entries; a line before them says what they add to.
function add_errors(    i, line, colon) {
	for (i = 1; i <= comments; i++) {
		line = comment[i]
		if (i == 1) sub(/^Errors: ?/, "", line)
		if (line == "") continue
		if (line ~ /^-E[A-Z0-9]+(, -E[A-Z0-9]+)*: /) {
			colon = index(line, ": ")
			errors[group] = errors[group] ".TP\n.B " escaped(substr(line, 1, colon - 1)) "\n"
			line = substr(line, colon + 2)
			line = toupper(substr(line, 1, 1)) substr(line, 2)
		} else if (i == 1) line = toupper(substr(line, 1, 1)) substr(line, 2)
		errors[group] = errors[group] marked(line) "\n"
	}
}
# What the comment says of the declarations below it is printed once their names are known.
function end_comment() {
	if (!comments) return
	if (!preface) preface = paragraphs(1, last_of_preface())
	else if (comment[1] ~ /^Errors: ?/) add_errors()
	else if (comment[1] ~ /^Examples: /) programs[group] = substr(comment[1], 11)
	else if (comment[1] ~ /^[A-Z][a-z]+: /) begin_group()
	else { about = paragraphs(1, comments); has_about = 1 }
	comments = 0
}
# The file's first comment ends with what only its editors need.
function last_of_preface(    i) {
	for (i = 1; i < comments && comment[i + 1] !~ /^The man pages are made/; i++);
	return comment[i] == "" ? i - 1 : i
}
function end_declarations() {
	if (has_about && group)
		calls[group] = calls[group] (subject == "" ? ".PP\n" : ".TP\n.B " escaped(subject) "\n") about
	has_about = 0; subject = ""; about = ""
}
function declare(line,    name) {
	synopsis[group] = synopsis[group] marked(line) "\n"
	if (match(line, /vshmem_[a-z_]+\(/)) {
		name = substr(line, RSTART, RLENGTH - 1)
		if (page[group] == "" && line !~ /^typedef/) page[group] = name
		names[group] = names[group] (names[group] == "" ? "" : " ") name
		subject = subject (subject == "" ? "" : ", ") name "()"
	} else if (match(line, /^(struct|enum) vshmem_[a-z]+/))
		subject = subject (subject == "" ? "" : ", ") substr(line, RSTART, RLENGTH)
}
function examples_of(g,    count, all, i, text) {
	count = split(programs[g], all, /, /)
	for (i = 1; i <= count; i++)
		text = text (i > 1 ? ".br\n" : "") ".I " escaped(examples "/" all[i]) "\n"
	return text
}
function references(others,    i, text) {
	for (i = 1; i <= group; i++) if (i != others) text = text ",\n.BR " page[i] " (3)"
	return text
}
function page_of(g, file,    count, all, i, list) {
	count = split(names[g], all, " ")
	list = page[g]
	for (i = 1; i <= count; i++) if (all[i] != page[g]) {
		list = list ", " all[i]
		print ".so man3/" page[g] ".3" >(directory "/" all[i] ".3")
	}
	file = directory "/" page[g] ".3"
	print ".TH " page[g] " 3 \"\" \"vshmem " version "\" \"vshmem\"" >file
	print ".SH NAME\n" list " \\- " escaped(lower_first(title[g])) >file
	print ".SH SYNOPSIS\n.nf\n.B #include <vshmem.h>\n.PP\n" synopsis[g] ".fi\n.PP" >file
	print "Link with \\fI\\-lvshmem\\fR." >file
	printf "%s%s%s", ".SH DESCRIPTION\n", described[g], calls[g] >file
	print ".SH RETURN VALUE\nFunctions that return\n.I int\nreturn 0 or more when they did what they were asked,\nand a negative errno otherwise." >file
	if (errors[g] != "") printf "%s%s", ".SH ERRORS\n", errors[g] >file
	if (programs[g] != "") printf "%s%s", ".SH EXAMPLES\n", examples_of(g) >file
	print ".SH SEE ALSO\n.BR libvshmem (3)" references(g) >file
}
/^#|^extern|^}$/ && !in_body { next }
/^\/\*/ || in_comment {
	if (!in_comment) end_declarations()
	line = $0
	in_comment = line !~ /\*\//
	sub(/ ?\*\/.*$/, "", line); sub(/^\/\* ?/, "", line); sub(/^ \* ?/, "", line)
	comment[++comments] = line
	if (!in_comment && !preface) end_comment()
	next
}
/^$/ {
	end_comment(); end_declarations()
	if (group && synopsis[group] != "" && synopsis[group] !~ /\.PP\n$/) synopsis[group] = synopsis[group] ".PP\n"
	next
}
!group { next }
{
	end_comment()
	if ($0 ~ /^(struct|enum) .*\{$/) in_body = 1
	declare($0)
	if ($0 ~ /^};|^enum .*};/) in_body = 0
}
END {
	end_comment(); end_declarations()
	for (g = 1; g <= group; g++) { sub(/\.PP\n$/, "", synopsis[g]); page_of(g) }
	file = directory "/libvshmem.3"
	print ".TH libvshmem 3 \"\" \"vshmem " version "\" \"vshmem\"" >file
	print ".SH NAME\nlibvshmem \\- memory, System V objects, message channels and teams of a pool that virtual machines share" >file
	print ".SH SYNOPSIS\n.nf\n.B #include <vshmem.h>\n.PP\n.BI cc \" program.c \" \"$(pkg\\-config \\-\\-cflags \\-\\-libs vshmem)\"" >file
	print ".BI \"cc \\-static\" \" program.c \" \"\\-lvshmem \\-lpthread \\-lm \\-ldl\"\n.fi\n.SH DESCRIPTION" >file
	printf "%s", preface >file
	print ".SH PAGES" >file
	for (g = 1; g <= group; g++) print ".TP\n.BR " page[g] " (3)\n" marked(toupper(substr(title[g], 1, 1)) substr(title[g], 2)) "." >file
	print ".SH SEE ALSO\n.BR vshmem (1),\n.BR vshmem\\-pool\\-create (1),\n.BR shmget (2),\n.BR semget (2),\n.BR msgget (2)" >file
}

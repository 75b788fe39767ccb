# The way of a call through the files, by what trace.c and addr2line have found: count.pl WALK ROOT
# Two lines for each function that was entered, in the order of first entries: its name, and `FILE:LINE`.
use strict;
use warnings;

my ($walk, $root) = @ARGV;
# What a reader knows beforehand, or does not stop at: docs/internals/walks.md.
my $vocabulary = qr{^crates/(?:vshmem_wire|vshmem_mem)/|^crates/vshmem_ipc/src/api/};
# Conversions and what else has no name where it is called; closures are read where they are written, constructors are data.
my $trivial = qr/ as core::(?:convert|ops::deref|default|clone|cmp|fmt|hash|iter|borrow)|\bimpl core::(?:convert|ops::deref|fmt)|\{\{?closure|(?:^|::)[A-Z]\w*$/;

my %lines_of;

# Whether the body of the function that begins there is a single line: its name says it, or it is read at a glance.
sub is_short {
	my ($file, $line) = @_;
	my $lines = $lines_of{$file} //= do {
		open my $source, '<', "$root/$file" or die "count.pl: $file: $!\n";
		[ <$source> ];
	};
	my ($indent) = $lines->[ $line - 1 ] =~ /^(\s*)/;
	my $begin = $line - 1;
	$begin++ until $begin >= @$lines || $lines->[$begin] =~ /\{(?:\})?$/;
	my $end = $lines->[ $begin + 2 ] // '';
	return $lines->[$begin] =~ /\}$/ || $end =~ /^$indent\}$/ ? 1 : 0;
}

# Rooms, and steps back: first entries of functions in a file that was left before.
sub count {
	my (%rooms, $back, $before);
	($back, $before) = (0, '');
	for my $entry (@_) {
		$back++ if $entry->{file} ne $before && $rooms{ $entry->{file} };
		$rooms{ $before = $entry->{file} } = 1;
	}
	return sprintf 'rooms %d, back %d', scalar keys %rooms, $back;
}

my (%seen, @entries);
while (my $name = <STDIN>) {
	my $place = <STDIN> // die "count.pl: a name without a place\n";
	chomp($name, $place);
	next unless $place =~ m{^\Q$root\E/(crates/\S+?):(\d+)};
	my ($file, $line) = ($1, $2);
	1 while $name =~ s/(?<=\w)(?:::)?<[^<>]*>$//;
	next if $file =~ $vocabulary || $name =~ $trivial;
	# Every type that a function is made for has a symbol of its own.
	next if $seen{"$file:$line"}++;
	$name =~ s/.*:://;
	push @entries, { file => $file, name => $name, short => scalar is_short($file, $line) };
}
die "count.pl: $walk: no function of ours\n" unless @entries;

printf "%s: %s; without functions of one line: %s\n", $walk, count(@entries), count(grep { !$_->{short} } @entries);
my (%rooms, @stops);
for my $entry (@entries) {
	if (!@stops || $stops[-1][0] ne $entry->{file}) {
		push @stops, [ $entry->{file}, $rooms{ $entry->{file} }++ ? '<' : ' ' ];
	}
	push @{ $stops[-1] }, $entry->{short} ? "($entry->{name})" : $entry->{name};
}
for my $stop (@stops) {
	my ($file, $mark, @names) = @$stop;
	printf "%s %s: %s\n", $mark, $file, join ' ', @names;
}
print "\n";

# The way of a call through the files: count.pl ROOT TABLE WALK <ENTRIES
#   ENTRIES: what trace.c writes
#   TABLE: a line for each function of the library: address and size (hexadecimal), name, FILE:LINE, whether it is a word (words.pl),
#   with tabs between, in the order of addresses
use strict;
use warnings;

my ($root, $table, $walk) = @ARGV;
# What a reader knows beforehand, or does not stop at: docs/internals/walks.md.
my $vocabulary = qr{^crates/(?:vshmem_wire|vshmem_mem)/|^crates/vshmem_ipc/src/api/};
my $closure = qr/\{\{?closure/;
# Conversions and what else has no name where it is called; closures are read where they are written, constructors are data.
my $trivial = qr/ as core::(?:convert|ops::deref|default|clone|cmp|fmt|hash|iter|borrow)|\bimpl core::(?:convert|ops::deref|fmt)|$closure|(?:^|::)[A-Z]\w*$/;

my @functions;
open my $rows, '<', $table or die "count.pl: $table: $!\n";
while (<$rows>) {
	chomp;
	my ($at, $size, $name, $place, $is_word) = split /\t/;
	1 while $name =~ s/(?<=\w)(?:::)?<[^<>]*>$//;
	my ($file, $line) = $place =~ m{^\Q$root\E/(crates/\S+?):(\d+)} ? ($1, $2) : ('', 0);
	push @functions,
		{ at => hex $at, end => hex($at) + hex $size, name => $name, file => $file, line => $line, is_word => $is_word };
}

sub function_at {
	my ($at) = @_;
	my ($low, $high) = (0, scalar @functions);
	while ($high - $low > 1) {
		my $middle = int(($low + $high) / 2);
		if ($functions[$middle]{at} <= $at) { $low = $middle } else { $high = $middle }
	}
	return $at < $functions[$low]{end} ? $functions[$low] : { name => '', file => '', is_word => 0 };
}

# Whether it is entered in a word, whose name tells enough. A closure is a part of the function in which it is written, whoever
# calls it.
sub is_in_word {
	my $writer = '';
	for my $caller (@_) {
		next if $writer && $caller->{name} ne $writer;
		($writer) = $caller->{name} =~ /^(.*?)::$closure/;
		$writer //= '';
		return 1 if $caller->{is_word};
	}
	return 0;
}

my %lines_of;

# Whether the body of a function is a single line: its name says it, or it is read at a glance.
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

# Files, and steps back: first entries of functions in a file that was left before.
sub count {
	my (%files, $back, $before);
	($back, $before) = (0, '');
	for my $entry (@_) {
		$back++ if $entry->{file} ne $before && $files{ $entry->{file} };
		$files{ $before = $entry->{file} } = 1;
	}
	return sprintf 'files %d, back %d', scalar keys %files, $back;
}

# The stops of a way, a line each.
sub show {
	my (%files, @stops);
	for my $entry (@_) {
		if (!@stops || $stops[-1][0] ne $entry->{file}) {
			push @stops, [ $entry->{file}, $files{ $entry->{file} }++ ? '<' : ' ' ];
		}
		push @{ $stops[-1] }, $entry->{name};
	}
	for my $stop (@stops) {
		my ($file, $mark, @names) = @$stop;
		printf "%s %s: %s\n", $mark, $file, join ' ', @names;
	}
}

my (%seen, @all);
while (<STDIN>) {
	my ($function, @callers) = map { function_at(hex) } split ' ';
	my ($file, $name) = ($function->{file}, $function->{name});
	next if !$file || $file =~ $vocabulary || $name =~ $trivial;
	# Every type that a function is made for has a symbol of its own.
	next if $seen{"$file:$function->{line}"}++;
	$name =~ s/.*:://;
	my $is_glance = $function->{is_word} || is_short($file, $function->{line}) || is_in_word(@callers);
	push @all, { file => $file, name => $is_glance ? "($name)" : $name, is_glance => $is_glance };
}
die "count.pl: $walk: no function of ours\n" unless @all;
my @stops = grep { !$_->{is_glance} } @all;
printf "%s: all functions: %s; without words and lines: %s\n", $walk, count(@all), count(@stops);
show($ENV{ALL} ? @all : @stops);
print "\n";

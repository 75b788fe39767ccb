# The functions that are words of the code: at least so many other files call them, that who reads one of these knows them.
#   words.pl ROOT TABLE <DISASSEMBLY     prints TABLE (see count.pl) with one more column: 1 for a word
use strict;
use warnings;

my $files = 8;
my ($root, $table) = @ARGV;
my (%function_at, %callers_of, @rows);
open my $rows, '<', $table or die "words.pl: $table: $!\n";
while (<$rows>) {
	chomp;
	my ($at, undef, undef, $place) = split /\t/;
	my ($file) = $place =~ m{^\Q$root\E/(crates/\S+?):\d+};
	push @rows, { row => $_, place => $place };
	$function_at{ hex $at } = { file => $file, place => $place };
}
my $caller;
while (<STDIN>) {
	if (/^([0-9a-f]+) </) {
		$caller = $function_at{ hex $1 };
	} elsif ($caller && $caller->{file} && /\b(?:call|jmp)\s+([0-9a-f]+) </) {
		my $callee = $function_at{ hex $1 };
		next unless $callee && $callee->{file} && $callee->{file} ne $caller->{file};
		$callers_of{ $callee->{place} }{ $caller->{file} } = 1;
	}
}
print "$_->{row}\t", (keys %{ $callers_of{ $_->{place} } // {} } >= $files ? 1 : 0), "\n" for @rows;

# Reads names of Markdown files; prints each relative link in them that leads to no file or no heading.
use strict;
use warnings;
use File::Basename qw(dirname);

my %headings;

# The name that a heading has in a link: small letters, no punctuation, '-' for spaces.
sub slug {
	my ($text) = @_;
	$text =~ s/\[([^\]]*)\]\([^)]*\)/$1/g;
	$text = lc $text;
	$text =~ s/[^\w\s-]//g;
	$text =~ s/\s/-/g;
	return $text;
}

sub lines_outside_code {
	my ($file) = @_;
	open my $in, '<', $file or die "$file: $!";
	my ($code, @lines) = (0);
	while (my $line = <$in>) {
		chomp $line;
		if ($line =~ /^\s*```/) { $code = !$code; push @lines, ''; next }
		push @lines, $code ? '' : $line;
	}
	return @lines;
}

sub headings_of {
	my ($file) = @_;
	$headings{$file} //= do {
		my (%seen, %all);
		for my $line (lines_outside_code($file)) {
			next unless $line =~ /^#+\s+(.*?)\s*$/;
			my $slug = slug($1);
			my $count = $seen{$slug}++;
			$all{$count ? "$slug-$count" : $slug} = 1;
		}
		\%all;
	};
	return $headings{$file};
}

while (my $file = <STDIN>) {
	chomp $file;
	my $number = 0;
	for my $line (lines_outside_code($file)) {
		$number++;
		$line =~ s/`[^`]*`//g unless $line =~ /\]\(/;
		while ($line =~ /\]\(([^)\s]+)\)/g) {
			my $link = $1;
			next if $link =~ /^[a-z]+:/;
			my ($path, $anchor) = split /#/, $link, 2;
			my $target = $path eq '' ? $file : dirname($file) . "/$path";
			if (!-e $target) {
				print "$file:$number: $link: there is no such file\n";
			} elsif (defined $anchor && $target =~ /\.md$/ && !headings_of($target)->{$anchor}) {
				print "$file:$number: $link: there is no such heading\n";
			}
		}
	}
}

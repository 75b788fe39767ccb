#!/bin/sh
# What programs of a distribution do with files in /dev/shm: programs.sh BEGINNING. It prints what they say, which is the same on the
# kernel and on a pool. Names begin with BEGINNING, which no other program may use at the same time.
p=$1
cd /dev/shm || exit 1
say() { sed "s/$p/P/g"; }
same() { cmp "$1" "$2" && echo same; }
split -n 3 /etc/passwd "$p-s" && cat "$p"-sa? | cmp - /etc/passwd && rm "$p"-sa?
gzip -c /etc/passwd >"$p.gz" && gunzip -c "$p.gz" | cmp - /etc/passwd && gzip -d "$p.gz" && same "$p" /etc/passwd
install -m 640 "$p" "$p-i" && stat -c '%a %s %F %h' "$p-i"
ln -s "$p-i" "$p-l" && cmp "$p-l" /etc/passwd && readlink "$p-l" | say
tee "$p-t" </etc/hostname >/dev/null && diff "$p-t" /etc/hostname && shred -u "$p-t"
ls "$p-t" 2>&1 | say
find . -maxdepth 1 -name "$p*" | sort | say
rm "$p" "$p-i" "$p-l"
perl -e '($p) = @ARGV; open(F, ">$p"); print F "perl\n"; close F; print -s $p, "\n"; rename $p, "$p-2"; print scalar(() = <$p*>), "\n";
	opendir(D, "."); print scalar(grep { $_ eq "$p-2" } readdir D), "\n"; unlink "$p-2"' "$p"
awk -v p="/dev/shm/$p" 'BEGIN { print "awk" > p; close(p); getline x < p; print x }' && rm "$p"
dd if=/dev/zero of="$p" bs=1 count=0 seek=10000 status=none && cp --sparse=always "$p" "$p-2" && cp --reflink=auto "$p-2" "$p-3" && same "$p" "$p-3"
mv "$p" "$p-2" && ls "$p"* | say && rm "$p-2" "$p-3"
tar cf - -C /etc hostname | tar xf - --transform "s/hostname/$p/" && same "$p" /etc/hostname && rm "$p"
printf 'b\na\n' >"$p" && while read -r l; do echo "$l"; done <"$p" && sort "$p" -o "$p" && sed -i s/a/c/ "$p" && cat "$p" && tac "$p" && wc -l <"$p"
sort -r <"$p" >"$p-2" && head -c 1 "$p-2" && echo && chmod 600 "$p-2" && touch "$p-2" && truncate -s 2 "$p-2" && stat -c '%a %s' "$p-2"
[ -e "$p" ] && [ -f "$p" ] && [ ! -d "$p" ] && [ -s "$p" ] && [ ! -x "$p" ] && echo tests
rm -rf "$p" "$p-2" && ls | grep -c "^$p"

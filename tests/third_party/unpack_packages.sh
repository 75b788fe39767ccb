#!/bin/sh
# Unpacks Debian packages, with what they need and the machine lacks, below DIRECTORY; installs nothing:
#   unpack_packages.sh DIRECTORY PACKAGE...
directory=$1
shift
[ -f "$directory/done" ] && exit 0
mkdir -p "$directory/archives/partial" || exit 1
apt-get -o "Dir::Cache::archives=$directory/archives" -o APT::Sandbox::User=root install --download-only --yes \
	--no-install-recommends "$@" || exit 1
for package in "$directory"/archives/*.deb; do
	[ -e "$package" ] || continue # all are installed
	dpkg -x "$package" "$directory" || exit 1
done
rm -rf "$directory/archives"
touch "$directory/done"

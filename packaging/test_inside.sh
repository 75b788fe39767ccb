#!/bin/bash
# In the root that packaging/test.sh makes: installs the packages named, uses and purges them.
set -u
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
passed=0 failed=0
check() { # check WHAT COMMAND...
	local what=$1 output
	shift
	if output=$("$@" 2>&1); then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAILED: %s\n%s\n' "$what" "$output" | tail -40
	fi
}
answers() { # answers PATTERN COMMAND...: the output has it
	local pattern=$1 output
	shift
	output=$("$@" 2>&1)
	grep -q -- "$pattern" <<<"$output" || { echo "$* said: $output"; return 1; }
}

# Of a kernel that has only its headers here; else the driver's installation would be the first to write them.
for kernel in /lib/modules/*; do [ ! -d "$kernel" ] || depmod "${kernel##*/}" 2>/dev/null; done
wants=/etc/systemd/system/multi-user.target.wants
mkdir -p $wants
# The archive for other distributions. The group and empty directories stay.
files_alone() { sh /packages/files | while read -r file; do [ -d "$file" ] || echo "$file"; done; }
getent group >/tmp/groups-before
files_alone >/tmp/before
find /usr -xdev -type d | sort >/tmp/directories
chmod 555 /usr/bin # as on Fedora
check 'install of the archive' /packages/archive/install
check 'directories that were there keep their modes' test "$(stat -c %a /usr/bin)" = 555
chmod 755 /usr/bin
check 'its command' answers '^vshmem [0-9.]* (commit [0-9a-f]*)$' vshmem --version
check 'its library' vshmem run -- true
check 'its group' getent group vshmem
check 'its removal' /packages/archive/install --remove
files_alone >/tmp/after
check 'no file is left after it, and none is missing' diff /tmp/before /tmp/after
for pool in /dev/shm/vshmem.*; do rm -f "$pool"; done
rm -rf /run/vshmem /etc/vshmem
groupdel vshmem
# Its empty directories, which the purge of the packages would take for theirs.
find /usr -xdev -type d -empty | sort | comm -23 - /tmp/directories | xargs -r rmdir -p --ignore-fail-on-non-empty

sh /packages/files >/tmp/before
getent group >/tmp/groups-before
check 'apt-get install' apt-get install -y --no-install-recommends /packages/*.deb
check 'nothing is broken' dpkg --audit
check 'the group' getent group vshmem
check '/run/vshmem or its description' test -e /usr/lib/tmpfiles.d/vshmem.conf
check 'version and commit' answers '^vshmem [0-9.]* (commit [0-9a-f]*)$' vshmem --version
for page in vshmem vshmem-run vshmem-pool-create vshmem-pools libvshmem vshmem_open; do
	check "man -w $page" man -w "$page"
done
check 'a program on a private pool' vshmem run -- true
check 'doctor' answers 'preload' vshmem doctor

# Two processes on a pool that the unit's program makes.
check 'a pool from pools.d' /usr/lib/vshmem/make-pool packages --size 16M --mode 0660 --group vshmem
check 'the same again' answers 'it is there already' /usr/lib/vshmem/make-pool packages --size 16M
pair() { # pair PREFIX...: the examples, each a process of its own
	"$@" /usr/lib/vshmem/examples/producer -n 2000 & local producer=$!
	"$@" /usr/lib/vshmem/examples/consumer -n 2000 && wait $producer
}
check 'two processes of root' answers '2000 items taken, 0 wrong' pair vshmem run --pool packages --
useradd --no-create-home --groups vshmem member
check 'two processes of a member of the group' answers '2000 items taken, 0 wrong' \
	pair setpriv --reuid member --regid member --init-groups vshmem run --pool packages --
useradd --no-create-home stranger
check 'somebody else is refused' bash -c '! setpriv --reuid stranger --regid stranger --clear-groups vshmem run --pool packages -- true'
check 'another user made the pool' bash -c 'setpriv --reuid stranger --regid stranger --clear-groups vshmem pool create theirs --size 16M &&
	! said=$(/usr/lib/vshmem/make-pool theirs --size 16M 2>&1) && grep -q "belongs to user" <<<"$said"'
check 'the pool goes' vshmem pool rm packages
check 'the other goes' vshmem pool rm theirs
for pool in /dev/shm/vshmem.*; do [ ! -e "$pool" ] || check "$pool goes" vshmem pool rm "${pool##*/vshmem.}"; done
case " $* " in
*' vshmem-openmpi '*)
	check 'components of Open MPI' bash -c '! ldd /usr/lib/vshmem/openmpi/*.so | grep "not found"'
	check 'mpi-env' bash -c 'vshmem pool create mpi --size 64M && vshmem mpi-env --pool mpi >/tmp/mpi-env && vshmem pool rm mpi'
	;;
esac
case " $* " in
*' vshmem-libfabric '*) check 'the provider for libfabric' bash -c '! ldd /usr/lib/vshmem/libfabric/*.so | grep "not found"' ;;
esac
case " $* " in
*' vshmem-dkms '*) check 'the driver, built' answers ': installed' dkms status vshmem ;;
esac
if command -v cloud-init >/dev/null; then
	check 'user data for cloud-init' answers 'Valid' cloud-init schema --config-file /packages/cloud-init.yaml
	rm -rf /run/cloud-init # that of Debian 13 makes it
fi
userdel member
userdel stranger

# What `systemctl enable` leaves.
for unit in pool serve; do ln -s "/usr/lib/systemd/system/vshmem-$unit@.service" "$wants/vshmem-$unit@job7.service"; done
check 'purge' apt-get purge -y "$@"
sh /packages/files >/tmp/after
getent group >/tmp/groups-after
left() { diff /tmp/before /tmp/after; }
check 'no file is left, and none is missing' left
check 'no group is left' diff /tmp/groups-before /tmp/groups-after
echo "$passed passed, $failed failed"

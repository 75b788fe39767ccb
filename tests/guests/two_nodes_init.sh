#!/bin/busybox sh
# What tests/guests/two_nodes has its guest do. CPUs 0-1 and 640 MiB are node 0, CPUs 2-3 and 1664 MiB node 1,
# a page of 1 GiB of which was reserved at boot.
export PATH=/bin:/usr/bin HOME=/tmp
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/shm /dev/hugepages
mount -t tmpfs none /dev/shm
mount -t hugetlbfs -o pagesize=2M none /dev/hugepages
hostname host

check() { # check WHAT EXPECTED COMMAND...: the command's output is a pattern of the shell's
	what=$1 expected=$2
	shift 2
	said=$("$@" 2>&1)
	case $said in
	$expected) echo "ok $what" ;;
	*) echo "FAILED: $what: expected [$expected], found: [$said]" | tr '\n' ' ' && echo ;;
	esac
}
segments() { # segments POOL CPU COUNT BYTES [KEY]
	pool=$1
	shift
	vshmem run --pool "$pool" -- segment_nodes "$@"
}
create() { vshmem pool create "$@" >/dev/null 2>/tmp/error || { cat /tmp/error; return 1; }; }
facts() { # facts POOL: what `pool show` says of nodes
	vshmem pool show "$1" | sed -n 's/^nodes  *//p'
}
remove() { vshmem pool check "$1" >/dev/null || echo "FAILED: pool check $1"; vshmem pool rm "$1" >/dev/null; }
free=/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages
# The agent has a pool mapped until it has noticed that the pool is gone.
all_free() { for look in $(seq 300); do [ "$(cat $free)" = 40 ] && break; sleep 0.2; done; }
reserve() { # reserve NODE COUNT: so many huge pages
	file=/sys/devices/system/node/node$1/hugepages/hugepages-2048kB/nr_hugepages
	for look in $(seq 100); do
		echo "$2" >$file
		[ "$(cat $file)" = "$2" ] && return
		echo 1 >/proc/sys/vm/compact_memory
		sleep 0.2
	done
	echo "FAILED: node $1 has no $2 huge pages to reserve"
}
M=1048576

check 'this host has two nodes' '0-1' cat /sys/devices/system/node/has_memory

# First, while memory is not fragmented yet.
check 'no huge pages' '*16 huge pages of 2M, and 0 are free*echo 16 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages*' \
	create huge --size 32M --hugepages 2M
reserve 0 20
check 'none on node 1' '*huge pages of 2M on node 1, and 0 are free*echo 16 > /sys/devices/system/node/node1/hugepages/*' \
	create huge --size 32M --hugepages 2M --numa 1
reserve 1 20
create huge --size 32M --hugepages 2M --numa 1
check 'huge pages of node 1' '1 1 1 12288' segments huge 0 3 $((4 * M))
check 'small segments in huge pages' '1 1 1 1 8192' segments huge 0 4 5000
check 'pool show: huge pages on node 1' 'node 1: 32M*' facts huge
remove huge
all_free
create huge --size 64M --hugepages 2M --numa 0,1
check 'huge pages of each node: 0' '0 0 8192' segments huge 0 2 $((4 * M))
check 'huge pages of each node: 1' '1 1 8192' segments huge 2 2 $((4 * M))
remove huge
all_free
check 'the huge pages are free again' '40' cat $free
reserve 0 0
reserve 1 0

create bound0 --size 32M --numa 0
check 'a pool on node 0, made use of on node 1' '0 0 0 0' segments bound0 2 3 $M
check 'pool show: all of it on node 0' 'node 0: 32M' facts bound0
remove bound0
create bound1 --size 32M --numa 1
check 'a pool on node 1, made use of on node 0' '1 1 1 0' segments bound1 0 3 $M
check 'pool show: all of it on node 1' 'node 1: 32M' facts bound1
remove bound1
create turn --size 32M --numa interleave
check 'a pool on both in turn' 'mixed mixed 0' segments turn 0 2 $M
check 'pool show: half and half' 'node 0: 16*M, node 1: 16*M' facts turn
remove turn

create turn --size 32M --numa interleave:0,1
check 'a pool on nodes that are named, in turn' 'mixed mixed 0' segments turn 0 2 $M
check 'pool show: half and half' 'node 0: 16*M, node 1: 16*M' facts turn
remove turn

create both --size 64M --numa 0,1
check 'a process on node 0 gets pages of node 0' '0 0 0 0 0' segments both 0 4 $M
check 'a process on node 1 gets pages of node 1' '1 1 1 1 0' segments both 3 4 $M
check 'also small ones' '1 1 1 1 1 0' segments both 2 5 5000
check 'a node that is full: the nearest' '0 0 0 0 1 1 1 0' segments both 1 7 $((6 * M))
check 'a key that asks for node 1' '1 1 0' segments both 0 2 $M 0x4e4f0100
check 'VSHMEM_NODE says where a guest lies' '0 0' env VSHMEM_NODE=0 vshmem run --pool both -- segment_nodes 3 1 $M
check 'pool show: its ranges' '*node 0: *, node 1: *' facts both
check 'pool show --json' '*"node_ranges"*"node": 0*"node": 1*' vshmem pool show both --json
remove both

check 'a node that is absent' '*its pages cannot lie on node 0,7*has_memory*' create absent --size 32M --numa 0,7
check 'another one' '*its pages cannot lie on node 9*' create absent --size 32M --numa 9

umount /dev/hugepages
mount -t hugetlbfs -o pagesize=1G none /dev/hugepages
free=/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/free_hugepages
check 'a page of 1G was reserved at boot' '1' cat $free
check 'none on node 0' '*huge pages of 1G on node 0, and 0 are free*' create giant --size 1G --hugepages 1G --numa 0
create giant --size 1G --hugepages 1G --numa 1
check 'segments in a page of 1G of node 1' '1 1 2097152' segments giant 0 2 $((4 * M))
check 'pool show: 1G on node 1' 'node 1: 1G' facts giant
check 'pool show: pages of 1G' '*"page_size": 1073741824*' vshmem pool show giant --json
check 'the page is in use' '0' cat $free
remove giant
for look in $(seq 300); do [ "$(cat $free)" = 1 ] && break; sleep 0.2; done
check 'the page is free again' '1' cat $free

[ ! -e /plan.json ] || . /two_nodes_plan.sh
echo DONE
poweroff -f

#!/bin/sh
# Open MPI with its shared memory from System V, the installed one or Debian's packages unpacked: run_open_mpi.sh ['CMD PREFIX']
prefix=$1 passed=0 failed=0
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/third_party
work=${BUILD:-$root/build/third_party}/open_mpi
if ! command -v apt-get >/dev/null; then
	echo "no Debian packages here"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
mkdir -p "$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if command -v mpirun.openmpi >/dev/null && command -v mpicc.openmpi >/dev/null; then
	mpirun=mpirun.openmpi
	mpicc.openmpi -O2 -o "$work/ring" "$here/ring.c" || exit 1
elif "$here/unpack_packages.sh" "$work/root" openmpi-bin libopenmpi-dev >"$work/log" 2>&1; then
	triplet=$(gcc -dumpmachine)
	library=$work/root/usr/lib/$triplet
	mpirun=$work/root/usr/bin/mpirun.openmpi
	export OPAL_PREFIX=$library/openmpi PATH=$work/root/usr/bin:$PATH
	export LD_LIBRARY_PATH=$library:$library/openmpi/lib
	# Found by their places below the unpacked root, not the installed ones.
	export OMPI_MCA_mca_base_component_path=$library/openmpi/lib/openmpi3
	export OMPI_MCA_orte_launch_agent=$work/root/usr/bin/orted PMIX_MCA_mca_base_component_path=$library/pmix2/lib/pmix PMIX_INSTALL_PREFIX=$library/pmix2
	gcc -O2 -I"$library/openmpi/include" -o "$work/ring" "$here/ring.c" -L"$library/openmpi/lib" -L"$library" -Wl,--allow-shlib-undefined -lmpi || exit 1
else
	cat "$work/log"
	echo "Open MPI could not be fetched"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi

try() { # what, ranks, options of mpirun
	what=$1 ranks=$2
	shift 2
	if timeout -k 5 120 $prefix "$mpirun" --oversubscribe -np "$ranks" --mca shmem sysv "$@" "$work/ring" >"$work/log" 2>&1 &&
		grep -q "^$ranks ranks, 0 wrong" "$work/log"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $what"
		tail -20 "$work/log"
	fi
}
try '2 ranks' 2 --mca btl self,vader --mca btl_vader_single_copy_mechanism none
try '4 ranks' 4 --mca btl self,vader --mca btl_vader_single_copy_mechanism none
try '4 ranks, copies by the kernel' 4 --mca btl self,vader
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]

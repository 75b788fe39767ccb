# To be sourced: Podman with a store of its own, and an image that holds vshmem and the test's program.
# Wants $vshmem (the command), $pool (the test's pool, which need not be there yet) and $work (a directory); sets $podman (an array)
# and $image. What it has made, and the pool, is removed when the test ends.
# PODMAN_RUN: more words for each `podman run`, such as --cgroup-parent=PATH.
skip() { echo "    SKIPPED: containers: $1"; echo "1 passed, 0 failed"; exit 0; }

. tests/checks.sh

explain() { "$vshmem" ls --pool "$pool"; }

# Waits for a state; the bound only ends a test that has failed.
until_true() { # until_true COMMAND...
	local try
	for try in {1..600}; do
		"$@" && return 0
		sleep 0.1
	done
	return 1
}

# Podman's own files stay below $work; its locks would be in /dev/shm otherwise.
configure() { # configure RUNTIME
	cat >"$work/containers.conf" <<-EOF
		[engine]
		runtime = "$1"
		cgroup_manager = "cgroupfs"
		events_logger = "none"
		lock_type = "file"
		tmp_dir = "$work/tmp"
		[containers]
		log_driver = "k8s-file"
		EOF
	export CONTAINERS_CONF=$work/containers.conf
}

# The programs with the libraries that they need, as an archive.
tree() {
	local root=$work/root file
	mkdir -p "$root"/{bin,proc,sys,dev,tmp,etc}
	cp build/containers/member "$root/bin/"
	cp "$vshmem" "$(dirname "$vshmem")"/libvshmem_preload*.so "$root/bin/"
	for file in $(ldd "$root"/bin/* | grep -o '/[^ :]* (' | tr -d '(' | sort -u); do
		mkdir -p "$root$(dirname "$file")"
		cp -L "$file" "$root$file"
	done
	tar -C "$root" -c .
}

# Runs a container; the first word of the program is in the image's /bin.
container() { "${podman[@]}" run --network none "${limits[@]}" ${PODMAN_RUN:-} "$@"; }

# Which runtime can start a container here, and with which limits: one that is not allowed to raise its own
# limits gets those that it has.
start_engine() {
	local runtime answer=
	command -v podman >/dev/null || skip "no podman here (scripts/setup containers)"
	[ "$(id -u)" = 0 ] || skip "this test runs as root"
	# Podman 5 complains of a machine's control groups where a test expects one line.
	export PODMAN_IGNORE_CGROUPSV1_WARNING=1
	podman=(podman --root "$work/store" --runroot "$work/run")
	configure runc
	tree | "${podman[@]}" import -q - vshmem-test >/dev/null 2>"$work/import.log" || skip "podman import failed: $(tail -1 "$work/import.log")"
	image=localhost/vshmem-test
	for runtime in crun runc; do
		command -v $runtime >/dev/null || continue
		configure $runtime
		for limits in "" "--ulimit=nofile=1024:1024 --ulimit=nproc=1024:1024"; do
			limits=($limits)
			answer=$(container --rm $image vshmem --version 2>&1) && return
		done
	done
	skip "podman cannot start a container: $(tail -1 <<<"$answer")"
}

stop_engine() {
	"${podman[@]}" rm -fa -t 0 >/dev/null 2>&1
	"${podman[@]}" rmi -fa >/dev/null 2>&1
	umount "$work/store/overlay" 2>/dev/null
	rm -rf "$work"
	"$vshmem" pool rm "$pool" --force >/dev/null 2>&1
}
podman=(false)
trap stop_engine EXIT
trap 'exit 130' INT TERM

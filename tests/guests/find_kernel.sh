# To be sourced: find_kernel [RELEASE] sets $release, $image and $modules to a kernel for guests with its modules, installed or unpacked
# by scripts/guest-kernel: the newest one, if none is named. Fails where there is none.
find_kernel() {
	local kernels
	for kernels in "" /var/lib/vshmem/guest-kernel; do
		release=${1:-$(ls "$kernels/boot" 2>/dev/null | sed -n 's/^vmlinuz-//p' | sort -V | tail -1)}
		image=$kernels/boot/vmlinuz-$release modules=$kernels/lib/modules/$release
		[ -n "$release" ] && [ -r "$image" ] && [ -r "$modules/modules.dep" ] && return 0
	done
	return 1
}

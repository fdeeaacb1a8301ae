package harness

// EnterRoot is a shell script that changes the root to that of another machine, in the mount namespace that it is run
// in, and runs /script.sh there. A root that is only changed by chroot could not have machines. Its arguments are the
// root, and then pairs of a directory there and the one of this machine that is seen in it.
const EnterRoot = `set -eu
root=$1
mount --bind "$root" "$root"
cd "$root"
mkdir -p old
mkdir -p dev proc sys run
for dir in dev proc sys; do mount --rbind "/$dir" "$dir"; done
mount -t tmpfs -o mode=755 tmpfs run
shift
while [ $# -gt 0 ]; do
	mkdir -p "$1"
	mount --rbind "$2" "$1"
	shift 2
done
pivot_root . old
umount -l /old
exec /bin/bash -o pipefail /script.sh`

# Run by user_manager.py in fresh mount and process namespaces: makes what systemd needs, prints this shell's
# process id as the outside sees it, runs "$@" until standard input closes, and leaves nothing behind.
set -eu
read -r outside rest < /proc/self/stat
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system # without it systemctl says that there is no systemd
mount -t tmpfs tmpfs /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
group=/sys/fs/cgroup/collated-test-$outside
mkdir "$group"
echo $$ > "$group/cgroup.procs"
"$@" < /dev/null &
manager=$!
echo $$ > /sys/fs/cgroup/cgroup.procs
echo "$outside"
read -r closed || true
kill -TERM $manager 2> /dev/null || true
wait $manager || true
find "$group" -depth -type d -exec rmdir {} +

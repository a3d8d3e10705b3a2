#!/bin/busybox sh
# Init of the guest: modules, the host's folders, then one command with its standard input and output on a
# virtio-serial port. All that varies comes from the kernel's command line (see words.py), so that one
# initramfs serves every NIC and every checkout. When the command ends, the machine is switched off.
PATH=/bin
root=/root
share=trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288

# By way of the kernel's log (descriptor 4), which writes to the console at once: what is still in a
# terminal's buffer at power-off is lost. <3> is an error: "quiet" shows nothing below it.
say() {
    echo "<3>labkit: $1" >&4
}

off() {
    poweroff -f
}

fail() {
    say "init: $1 failed"
    off
}

# Sets $decoded. The dot keeps line ends at the end of a word, which $() would take away.
decode() {
    decoded=$1
    case $1 in *%*)
        decoded=$(printf '%b.' "$(echo "$1" | sed 's/%/\\x/g')")
        decoded=${decoded%.} ;;
    esac
}

# Calls $2 for each item of the list $1, items with their comma or colon still encoded.
each() {
    rest=$1,
    while [ -n "$1" ] && [ -n "$rest" ]; do
        item=${rest%%,*}
        rest=${rest#*,}
        "$2" "$item"
    done
}

mount_share() {
    decode "${1%%:*}"; tag=$decoded
    decode "${1#*:}"; place=$decoded
    # below another share there is nothing to make, and no right to
    [ -d "$root$place" ] || mkdir -p "$root$place" || fail "mkdir $place"
    mount -t 9p -o $share "$tag" "$root$place" || fail "mounting $tag at $place"
}

make_link() {
    decode "${1%%:*}"; link=$decoded
    decode "${1#*:}"; target=$decoded
    [ -d "$root${link%/*}" ] || mkdir -p "$root${link%/*}" || fail "mkdir ${link%/*}"
    ln -sT "$target" "$root$link" || fail "linking $link to $target"
}

# A port has its name, and knows that the host listens, some messages after its device is there; read before
# the second it would tell of an end. Counted, for this clock runs on by itself while the CPU is idle.
find_port() {
    tries=0 known=/sys/kernel/debug/virtio-ports
    while [ $tries -lt 300 ]; do
        for port in /sys/class/virtio-ports/*; do
            [ "$(cat "$port/name" 2>/dev/null)" = labkit.agent ] || continue
            port=${port##*/}
            [ -d $known ] || return 0
            grep -q 'host_connected: 1' $known/$port && return 0
        done
        sleep 0.01
        tries=$((tries + 1))
    done
    return 1
}

exec 4>&2
mount -t devtmpfs dev /dev || fail "mounting /dev"
exec 4>/dev/kmsg
mount -t proc proc /proc || fail "mounting /proc"
mount -t sysfs sys /sys || fail "mounting /sys"
# not in every kernel
mount -t debugfs debug /sys/kernel/debug 2>/dev/null
mount -t tracefs trace /sys/kernel/tracing 2>/dev/null
# Whatever the kernel would load by itself is not there: without a program to ask it does not try.
echo >/proc/sys/kernel/modprobe

for word in $(cat /proc/cmdline); do
    case $word in
        labkit.mounts=*) mounts=${word#*=} ;;
        labkit.links=*) links=${word#*=} ;;
        labkit.exec=*) command=${word#*=} ;;
    esac
done

# Files are numbered in the order of their dependencies. No dummy0, no ifb0: nobody asked for them.
for module in /modules/*.ko; do
    case $module in
        *-dummy.ko) insmod "$module" numdummies=0 ;;
        *-ifb.ko) insmod "$module" numifbs=0 ;;
        *) insmod "$module" ;;
    esac || fail "inserting $module"
done

hostname labkit-guest || fail "setting the hostname"
ip link set lo up || fail "setting lo up"

# All of it one tmpfs, made before the shares: a checkout below /tmp is mounted into it.
mount -t tmpfs -o mode=0755 root $root || fail "mounting the root"
cd $root || fail "entering the root"
mkdir -p dev etc proc root run/netns run/lock sys tmp usr var/tmp || fail "making folders"
chmod 1777 tmp var/tmp run/lock || fail "opening /tmp"
ln -s /run var/run || fail "linking /var/run"
cp -a /etc/. etc/ || fail "copying /etc"
each "$mounts" mount_share
each "$links" make_link
mkdir -p /dev/shm && mount -t tmpfs -o mode=1777 shm /dev/shm || fail "mounting /dev/shm"
ln -s /proc/self/fd /dev/fd && ln -s fd/0 /dev/stdin && ln -s fd/1 /dev/stdout && ln -s fd/2 /dev/stderr \
    || fail "linking /dev/fd"

find_port || fail "finding the port labkit.agent"
exec 3<>"/dev/$port" || fail "opening /dev/$port"

set --
rest=$command,
while [ -n "$command" ] && [ -n "$rest" ]; do
    decode "${rest%%,*}"
    rest=${rest#*,}
    set -- "$@" "$decoded"
done
[ $# -gt 0 ] || fail "finding labkit.exec on the command line"

for folder in dev proc sys; do
    mount --move /$folder $root/$folder || fail "moving /$folder"
done

# Moved to the top as switch_root does it, and not only a chroot: the kernel makes no user namespace for who
# lives in a chroot (current_chrooted() in fs/namespace.c). Init itself stays behind, with its busybox.
(
    cd $root && mount --move . / || exit 125
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
    exec /bin/chroot . "$@"
) <&3 >&3 3>&- 4>&-
status=$?

say "agent ended with status $status"
off

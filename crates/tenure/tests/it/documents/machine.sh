# Makes a machine of namespaces: whatever it may write is its own.
# $0 is the binary, $1 the machine's name, $2 the directory with the working directories of all machines.
set -e
exec 2>&1
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/bin /run/etc /run/home /run/hosts /run/state /run/work "$2/$1"
mkdir -p -m 700 /run/user/0
mount --bind "$2" /run/hosts
mount --bind "$2/$1" /run/work
touch /run/bin/tenure
mount --bind "$0" /run/bin/tenure

# Files get from machine to machine: scp FILE… HOST:[PATH]
cat > /run/bin/scp <<'END'
#!/bin/bash
to=${!#}
exec cp "${@:1:$#-1}" "/run/hosts/${to%%:*}/${to#*:}"
END
chmod +x /run/bin/scp

cp -a /etc/. /run/etc
rm -rf /run/etc/tenure /run/etc/machine-id
tr -d - < /proc/sys/kernel/random/uuid > /run/etc/machine-id
echo "$1" | tee /run/etc/hostname > /proc/sys/kernel/hostname
mount --bind /run/etc /etc
mount -t tmpfs -o mode=755 tmpfs /var/lib
mount -t tmpfs -o mode=1777 tmpfs /tmp
ip link set lo up multicast on
ip route add 224.0.0.0/4 dev lo

# A prompt that tells how the last command ended, and nothing else that a person at a terminal wants.
cat > /run/bashrc <<'END'
PS1=$'\036$?\037' PS2=
set +H
unset HISTFILE MAIL
END
echo ready
while read -r _; do :; done

# Programs in name spaces of their own: bubblewrap's sandboxes, unshare and nsenter, networks of ip netns, times
# deb: bubblewrap,util-linux,iproute2,iputils-ping,netcat-openbsd,procps,dash,bash,coreutils,grep,sed
# mem: 512M
# runs: when its suite is asked for
cd /tmp
export LC_ALL=C
echo "-- bwrap"
box="bwrap --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp --unshare-all --die-with-parent --new-session"
$box sh -c 'id -u; ls /tmp | wc -l; ls /proc | grep -c "^[0-9]"; ip -o link | sed "s/mtu.*state/state/; s/ mode.*//"; ping -c 1 -W 2 127.0.0.1 | grep -c "1 received"'
$box --uid 1234 --gid 99 --hostname inside sh -c 'id -u; id -g; uname -n; touch /usr/x 2>&1; touch /tmp/x && echo may'
$box sh -c 'nc -l -p 7000 > got & sleep 1; echo over lo | nc -N 127.0.0.1 7000; wait; cat got; nc -w 1 10.0.2.2 80; echo $?'
bwrap --ro-bind / / --unshare-net --proc /proc sh -c 'grep -c : /proc/net/dev; readlink /proc/self/ns/net | sed s/[0-9]//g; readlink /proc/1/ns/user | sed s/[0-9]//g'
setpriv --reuid 1000 --regid 1000 --clear-groups $box sh -c 'id -u; cat /proc/self/uid_map | tr -s " "; ip -o link | wc -l'
echo "-- unshare"
unshare -n ip -o addr
unshare -n sh -c 'ip link set lo up; ip -o addr | tr -s " " | cut -d" " -f2-4; ip route show table local | grep -v broadcast | cut -d" " -f1-4; ip addr add 10.9.8.7/24 dev lo; ping -c 1 -W 2 10.9.8.7 | grep -c "1 received"; ip addr del 10.9.8.7/24 dev lo; ip -4 -o addr | wc -l; ip link set lo down; ip -o link | grep -c DOWN'
setpriv --reuid 1000 --regid 1000 --clear-groups unshare -n true; echo $?
setpriv --reuid 1000 --regid 1000 --clear-groups unshare -r -n sh -c 'id -u; ip link set lo up && ip -o -4 addr | tr -s " " | cut -d" " -f2-4'
unshare -C sh -c 'grep -c ^0::/ /proc/self/cgroup'
unshare -T --boottime 864000 --monotonic 86400 sh -c 'up=$(cut -d. -f1 /proc/uptime); test $up -ge 864000 -a $up -lt 2000000 && echo ten days; cat /proc/self/timens_offsets'
unshare --fork --pid --mount-proc --net --uts --ipc --cgroup --user --map-root-user --time sh -c 'ps -o pid= | wc -l; ls /proc/self/ns | tr "\n" " "; echo'
echo "-- nsenter"
unshare -n sh -c 'ip link set lo up; sleep 100' & sleep 1
nsenter -t $! -n ip -o -4 addr | tr -s ' ' | cut -d' ' -f2-4
test $(nsenter -t $! -n readlink /proc/self/ns/net) = $(readlink /proc/$!/ns/net) && echo same
kill $!
echo "-- ip netns"
ip netns add one; ip netns add two; ip netns list | sed 's/ (id.*//' | sort
ip netns exec one ip link set lo up
ip netns exec one ip -o -4 addr | tr -s ' ' | cut -d' ' -f2-4
ip netns exec two ip -o -4 addr | wc -l
ip netns exec one sh -c 'nc -l -p 7001 > /tmp/one & sleep 1; echo in one | nc -N 127.0.0.1 7001; wait; cat /tmp/one'
ip netns exec two nc -w 1 127.0.0.1 7001; echo $?
ip netns del one; ip netns list | sed 's/ (id.*//'; ip netns exec one true; ip netns del two; ls /run/netns | wc -l

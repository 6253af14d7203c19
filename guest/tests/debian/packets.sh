# Programs that see and send packets: tcpdump on lo, with and without a filter, by a ring and as a user without rights; traceroute, ping
# deb: tcpdump,traceroute,iputils-ping,iproute2,busybox,dash,bash,coreutils,sed,grep,util-linux,python3
# mem: 1G
# runs: when its suite is asked for
cd /tmp
shorten() { sed -E 's/^[0-9:.]+ //; s/id [0-9]+/id N/; s/\.[0-9]{5} > /.PORT > /'; }
# What it says first is when it listens.
watch() { timeout 30 tcpdump -n -l "$@" > seen 2> said & until grep -q listening said 2>/dev/null; do sleep 0.1; done; }
echo "-- all"; watch -i lo -c 4 icmp or icmp6; ping -q -c 1 127.0.0.1 > /dev/null; ping -q -c 1 ::1 > /dev/null; wait; shorten < seen
echo "-- a filter"; watch -i lo -c 2 udp and dst port 4242
python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in 4241, 4242, 4243, 4242: s.sendto(b"x" * 10, ("127.0.0.1", port))'
wait; shorten < seen; tail -n 1 said
echo "-- written and read"; timeout 30 tcpdump -i lo -c 2 -w file icmp 2> said & until grep -q listening said; do sleep 0.1; done; ping -q -c 1 127.0.0.1 > /dev/null; wait; tcpdump -n -r file 2> /dev/null | shorten
echo "-- without rights"; setpriv --reuid 1234 --clear-groups --inh-caps=-all tcpdump -i lo -c 1 2>&1 | head -n 1 | cut -c 1-50
echo "-- traceroute"; traceroute -q 1 -n 127.0.0.1 | sed -E 's/[0-9.]+ ms/T ms/g'; traceroute -q 1 -n -I ::1 | sed -E 's/[0-9.]+ ms/T ms/g'
busybox traceroute -q 1 -n 127.0.0.1 | sed -E 's/[0-9.]+ ms/T ms/g'
echo "-- ping"; busybox ping -c 1 ::1 | sed -E 's/[0-9.]+ ms/T ms/g' | head -n 2; ping -n -c 1 -s 3000 127.0.0.1 | sed -E 's/[0-9.]+ ms/T ms/g' | head -n 2

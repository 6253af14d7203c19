# more servers that people know, over loopback: python3's web server, socat, nc -u, mosquitto, haproxy before lighttpd, dnsmasq with dig, rsync's daemon, OpenSSH, pgbench by TCP
# deb: python3-minimal,libpython3-stdlib,curl,socat,netcat-openbsd,mosquitto,mosquitto-clients,haproxy,lighttpd,dnsmasq-base,bind9-dnsutils,rsync,openssh-server,openssh-client,postgresql,util-linux,iproute2,dash,coreutils,grep,sed,findutils,mawk,diffutils,procps
set -e
export HOME=/root LC_ALL=C.UTF-8
mkdir -p /tmp/t && cd /tmp/t && chmod 755 /tmp/t
up() { until nc -z "${2:-127.0.0.1}" "$1"; do sleep 0.1; done; }
end() { kill "$1"; wait "$1" 2> /dev/null || true; }
echo "-- http.server"; mkdir www; echo hello > www/index.html; head -c 1000000 /dev/zero | tr '\0' x > www/large
python3 -m http.server -b ::1 -d www 18082 > log 2>&1 & it=$!
up 18082 ::1; curl -s 'http://[::1]:18082/'; curl -6 -s http://localhost:18082/large | cmp - www/large && echo same; curl -s -o /dev/null -w '%{http_code}\n' 'http://[::1]:18082/none'; end $it
echo "-- socat"; socat -t 60 TCP-LISTEN:18083,bind=127.0.0.1,reuseaddr,fork EXEC:'tr a-z A-Z' & it=$!
up 18083; echo upper | socat -t 60 - TCP:127.0.0.1:18083; end $it
socat UNIX-LISTEN:socket,fork TCP6:[::1]:18084 & it=$!
socat TCP6-LISTEN:18084,bind=[::1],reuseaddr OPEN:out,creat,trunc & end=$!
until [ -S socket ]; do sleep 0.1; done; up 18084 ::1 || true
wait $end; socat TCP6-LISTEN:18084,bind=[::1],reuseaddr OPEN:out,creat,trunc & end=$!
until grep -q ':46A4 .* 0A ' /proc/net/tcp6; do sleep 0.1; done; echo through | socat -u - UNIX-CONNECT:socket; wait $end; cat out; end $it
echo "-- nc -u"; nc -u -l 127.0.0.1 18085 > out & it=$!
until ss -lun | grep -q 18085; do sleep 0.1; done; echo datagram | nc -u -w 1 127.0.0.1 18085; until grep -q datagram out; do sleep 0.1; done; end $it; cat out
echo "-- mosquitto"; printf 'listener 11883 127.0.0.1\nallow_anonymous true\npersistence false\n' > mq; mosquitto -c mq > log 2>&1 & it=$!
up 11883; for n in 1 2 3; do mosquitto_pub -h 127.0.0.1 -p 11883 -t a/$n -q 1 -r -m "message $n"; done
mosquitto_sub -h 127.0.0.1 -p 11883 -t 'a/#' -q 1 -C 3 -v | sort; end $it
echo "-- haproxy, lighttpd"; for n in 1 2; do mkdir d$n; echo "server $n" > d$n/index.html; printf 'server.document-root="/tmp/t/d%d"\nserver.bind="127.0.0.1"\nserver.port=1810%d\nindex-file.names=("index.html")\n' $n $n > l$n; lighttpd -D -f l$n > log$n 2>&1 & eval it$n=\$!; done
printf 'global\n maxconn 200\ndefaults\n mode http\n timeout connect 5s\n timeout client 50s\n timeout server 50s\nfrontend f\n bind 127.0.0.1:18103\n default_backend b\nbackend b\n balance roundrobin\n server a 127.0.0.1:18101\n server b 127.0.0.1:18102\n' > ha
haproxy -db -f ha > log 2>&1 & it=$!
up 18101; up 18102; up 18103; sleep 0.5; for n in 1 2 3 4; do curl -s http://127.0.0.1:18103/; done | sort | uniq -c | sed 's/^ *//'; end $it; end $it1; end $it2
echo "-- dnsmasq"; echo '10.1.2.3 here.test' > hosts; dnsmasq -k -p 10053 --user=root --listen-address=127.0.0.1 --bind-interfaces --no-resolv --no-hosts --addn-hosts=/tmp/t/hosts --address=/all.test/10.9.8.7 --host-record=six.test,2001:db8::5 --pid-file= 2> log & it=$!
d() { dig +short +time=5 +tries=2 -p 10053 @127.0.0.1 "$@"; }
until d here.test | grep -q 10; do sleep 0.2; done; d here.test; d x.all.test; d six.test AAAA; d +tcp here.test; d none.here.test | wc -l; end $it
echo "-- rsync"; printf 'use chroot=no\nuid=root\ngid=root\n[m]\npath=/tmp/t/www\nread only=no\n' > rs; rsync --daemon --no-detach --port=18730 --address=127.0.0.1 --config=rs > log 2>&1 & it=$!
up 18730; rsync -a rsync://127.0.0.1:18730/m/ got/ && diff -r www got && echo same; echo more > got/more; rsync -a got/ rsync://127.0.0.1:18730/m/ && cat www/more; end $it
echo "-- sshd"; sed -i "s,^root:.*,root:*:0:0:root:/root:/bin/sh," /etc/passwd; mkdir -p /run/sshd; ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f own
/usr/sbin/sshd -D -f /dev/null -h /tmp/t/host -p 12223 -o ListenAddress=127.0.0.1 -o UsePAM=no -o StrictModes=no -e -o PidFile=none -o AuthorizedKeysFile=/tmp/t/own.pub 2> log & it=$!
up 12223; s() { ssh -F /dev/null -i own -p 12223 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "$@"; }
s root@127.0.0.1 'echo from $(id -u)'; head -c 300000 www/large | s root@127.0.0.1 'wc -c'; s root@127.0.0.1 'exit 3' || echo "status $?"
rsync -a -e 'ssh -F /dev/null -i own -p 12223 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR' root@127.0.0.1:/tmp/t/www/ over/ 2> err || cat err; diff -r www over && echo same
s -L 127.0.0.1:18086:127.0.0.1:18087 -N root@127.0.0.1 & tunnel=$!
python3 -m http.server -b 127.0.0.1 -d www 18087 > log 2>&1 & web=$!
up 18087; up 18086; curl -s http://127.0.0.1:18086/; end $tunnel; end $web; end $it
echo "-- pgbench"; export PATH=/usr/lib/postgresql/15/bin:$PATH; install -d -o postgres pg; p() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }
p initdb -D pg/d -A trust > log 2>&1; setpriv --reuid postgres --regid postgres --init-groups postgres -D pg/d -c listen_addresses=127.0.0.1 -c port=15432 -c unix_socket_directories= > log 2>&1 & it=$!
until psql -h 127.0.0.1 -p 15432 -U postgres -Atc 'select 1' > /dev/null 2>&1; do sleep 0.3; done
P='-h 127.0.0.1 -p 15432 -U postgres'; pgbench $P -q -i -s 1 postgres > /dev/null 2>&1; pgbench $P -c 8 -j 2 -t 25 postgres 2>&1 | grep -E 'actually processed|failed transactions'; psql $P -Atc 'select count(*) from pgbench_history' postgres; end $it

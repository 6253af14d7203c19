# servers that people know, over loopback: nginx with 1,000 connections at once, redis, memcached, git, ssh, TLS, iperf3; and ip, ping
# deb: nginx-light,apache2-utils,curl,redis-server,redis-tools,memcached,git,dropbear-bin,openssl,iperf3,iproute2,iputils-ping,netcat-openbsd,dash,coreutils,grep,sed,findutils,mawk,diffutils
set -e
ulimit -n 4096
export HOME=/tmp
mkdir -p /tmp/t && cd /tmp/t
up() { until nc -z 127.0.0.1 "$1"; do sleep 0.1; done; }
echo "-- ip"; ip -o addr show dev lo | grep -o 'inet 127.*lo'; ip -o link show dev lo | grep -o 'lo: .*mtu [0-9]*'; ip route get 127.0.0.1 | head -1 | sed 's/ uid.*//;s/ *$//'
ip link show dev none 2>&1 || true
ping -c 2 -i 0.2 127.0.0.1 | grep -o '.*received, [0-9]*% packet loss'
echo "-- nginx"; mkdir -p www logs; echo hello > www/index.html; head -c 1000000 /dev/zero | tr '\0' x > www/large; openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -subj /CN=localhost -days 2 2> /dev/null
cat > conf << 'C'
daemon off; worker_processes 2; error_log stderr crit; pid /tmp/t/pid; user root;
events { worker_connections 2048; }
http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000;
client_body_temp_path /tmp/t/b; proxy_temp_path /tmp/t/p; fastcgi_temp_path /tmp/t/f; uwsgi_temp_path /tmp/t/u; scgi_temp_path /tmp/t/s;
server { listen 127.0.0.1:18080 reuseport; listen [::1]:18080; root /tmp/t/www; }
server { listen 127.0.0.1:18081; root /tmp/t/git; } }
C
nginx -p /tmp/t -c /tmp/t/conf & web=$!
up 18080; curl -s http://127.0.0.1:18080/ 'http://[::1]:18080/'; curl -s http://127.0.0.1:18080/large | cmp - www/large && echo same; curl -s -r 5-9 http://127.0.0.1:18080/large; echo; curl -s -o /dev/null -w '%{http_code}\n' http://127.0.0.1:18080/none
ab -q -k -n 4000 -c 1000 http://127.0.0.1:18080/ 2>&1 | grep -E 'Complete|Failed|Non-2xx'
ab -q -n 300 -c 20 http://127.0.0.1:18080/ 2>&1 | grep -E 'Complete|Failed|Non-2xx'
echo "-- git"; git config --global user.email a@b; git config --global user.name n; git config --global init.defaultBranch main; git init -q --bare git/r; git init -q w; (cd w; seq 20000 > f; git add f; git commit -qm one; git push -q ../git/r main); git -C git/r update-server-info
git daemon --export-all --base-path=/tmp/t/git --reuseaddr --listen=127.0.0.1 --port=19418 & daemon=$!
up 19418; git clone -q git://127.0.0.1:19418/r w2; cmp w/f w2/f && echo same; git clone -q http://127.0.0.1:18081/r w3; cmp w/f w3/f && echo same
kill $web $daemon; wait $web || true
echo "-- redis"; redis-server --port 16379 --save '' --daemonize no --dir /tmp/t > log 2>&1 & db=$!
up 16379; r() { redis-cli -p 16379 "$@"; }; r set a 41; r incr a; seq 2000 | sed 's/.*/SET key:& &/' | redis-cli -p 16379 --pipe | tail -1
redis-benchmark -p 16379 -n 1000 -c 50 -t set,get,lpush -q | tr '\r' '\n' | grep -o '^[A-Z]*: [0-9]' | grep -o '^[A-Z]*'; redis-benchmark -p 16379 -n 1000 -c 50 -P 16 -t set -q | tr '\r' '\n' | grep -o '^[A-Z]*: [0-9]' | grep -o '^[A-Z]*'
r shutdown nosave || true; wait $db; echo "ended: $?"
echo "-- memcached"; memcached -u root -l 127.0.0.1 -p 21211 -U 21211 & mc=$!
up 21211; printf 'set a 0 0 5\r\nhello\r\nget a\r\nget b\r\nquit\r\n' | nc 127.0.0.1 21211 | tr -d '\r'; printf '\0\1\0\0\0\1\0\0get a\r\n' | nc -u -W 1 127.0.0.1 21211 | tail -c +9 | tr -d '\r'; kill $mc; wait $mc || true
echo "-- TLS"; openssl s_server -accept 14433 -key key -cert cert -www -quiet > log 2>&1 & tls=$!
up 14433; curl -s --cacert cert https://localhost:14433/ | head -1; echo Q | openssl s_client -connect 127.0.0.1:14433 2>&1 | grep 'Cipher is'; kill $tls; wait $tls || true
echo "-- ssh"; echo 'root:x:0:0:root:/root:/bin/sh' > /etc/passwd; echo /bin/sh > /etc/shells; dropbearkey -t ed25519 -f host > /dev/null 2>&1; mkdir -p /root/.ssh; chmod 700 /root /root/.ssh; dropbearkey -t ed25519 -f own 2> /dev/null | grep ^ssh- > /root/.ssh/authorized_keys
dropbear -r host -p 127.0.0.1:12222 -F 2> log & ssh=$!
up 12222; s() { dbclient -y -y -i own -p 12222 root@127.0.0.1 "$@" 2> err; }
s 'echo from $(id -u)'; head -c 300000 www/large | s 'wc -c'; s 'exit 3' || echo "status $?"; kill $ssh; wait $ssh || true
echo "-- iperf3"; iperf3 -s -1 -p 15201 > log 2>&1 & wait_for=$!
sleep 1; iperf3 -c 127.0.0.1 -p 15201 -n 20M -P 2 | grep -c receiver; wait $wait_for

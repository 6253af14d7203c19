# Debian's nginx under a load, from inside by wrk and ab, and then from whoever reaches its published port, until a line is read.
# web.sh CONNECTIONS REQUESTS SECONDS
set -e
connections=$1 requests=$2 seconds=$3
ulimit -n 4096
mkdir -p /tmp/w/www /tmp/w/logs && cd /tmp/w
head -c 612 /dev/zero | tr '\0' x > www/index.html
cat > conf << 'C'
daemon off; worker_processes 2; error_log stderr crit; pid /tmp/w/pid; user root;
events { worker_connections 2048; }
http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; keepalive_timeout 3600s; client_header_timeout 3600s;
client_body_temp_path /tmp/w/b; proxy_temp_path /tmp/w/p; fastcgi_temp_path /tmp/w/f; uwsgi_temp_path /tmp/w/u; scgi_temp_path /tmp/w/s;
server { listen 80; root /tmp/w/www; } }
C
nginx -p /tmp/w -c /tmp/w/conf & web=$!
until nc -z 127.0.0.1 80; do sleep 0.1; done
wrk -t 2 -c "$connections" -d "$seconds" --timeout 60 http://127.0.0.1:80/ > wrk.out
grep -E 'Socket errors|Non-2xx' wrk.out || true
awk '/requests in/ { print "wrk_requests", $1 } /Requests\/sec/ { print "wrk_rate", $2 }' wrk.out
ab -q -k -s 300 -n "$requests" -c "$connections" http://127.0.0.1/ > ab.out 2>&1
awk '/^Complete/ { print "ab_complete", $3 } /^Failed/ { print "ab_failed", $3 } /^Non-2xx/ { print "ab_not_200", $3 } /^Requests per/ { print "ab_rate", $4 }' ab.out
echo ready
read -r line
kill $web; wait $web || true
echo ended

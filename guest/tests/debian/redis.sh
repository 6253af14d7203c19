# redis-server over a local socket: its types, Lua, pipelining, an append-only file that outlives a kill
# deb: redis-server,redis-tools,dash,coreutils,grep,sed,findutils,diffutils,mawk
set -e
cd /tmp
start() { redis-server --port 0 --unixsocket /tmp/s --appendonly yes --appendfsync always --dir /tmp --daemonize no --save '' > log 2>&1 & server=$!
    until [ "$(redis-cli -s /tmp/s ping 2>&1)" = PONG ]; do sleep 0.1; done; }
r() { redis-cli -s /tmp/s "$@"; }
start
r set a 1; r incrby a 41; r get a
r rpush l x y z; r lrange l 0 -1; r hset h k v n 2; r hgetall h; r zadd z 3 c 1 a 2 b; r zrange z 0 -1 withscores
r sadd s 1 2 3; r sinter s s | sort; r setrange str 5 hello; r strlen str; r xadd st '1-1' f v; r xlen st
r eval 'local t = 0 for i = 1, 1000 do t = t + i end redis.call("set", KEYS[1], t) return t' 1 total
seq 5000 | sed 's/.*/SET key:& &/' | redis-cli -s /tmp/s --pipe | tail -1
r dbsize; (r subscribe news > sub & p=$!; sleep 1; r publish news hello; sleep 1; kill $p); tail -1 sub
redis-benchmark -s /tmp/s -n 2000 -c 20 -t set,get,lpush -q | tr '\r' '\n' | grep -o '^[A-Z]*: [0-9]* *requests\|^[A-Z]*:' | grep -o '^[A-Z]*' | sort -u
kill -9 $server; wait $server || echo "killed: $?"
start; r get a; r get total; r get key:5000; r zscore z c; r bgrewriteaof > /dev/null; sleep 2; r info persistence | tr -d '\r' | grep -E 'aof_last_bgrewrite_status|aof_enabled'
r shutdown nosave || true; wait $server; echo "ended: $?"

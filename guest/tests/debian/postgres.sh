# postgresql 15: initdb, a server on a local socket, pgbench, parallel queries, transactions that wait and that fail, a dump that is loaded again, a crash
# deb: postgresql,util-linux,procps,bash,coreutils,grep,sed,findutils,diffutils,mawk,dash
# mem: 3G
# runs: when its suite is asked for
set -e
export PATH=/usr/lib/postgresql/15/bin:$PATH LC_ALL=C.UTF-8
# What a system does when it starts.
install -d -o postgres -g postgres -m 2775 /run/postgresql
stat -L -c '%F %U %a' /var/run/postgresql
cat > /tmp/as_postgres <<'S'
set -e
cd /tmp
initdb -D pg -A trust --no-sync > init.log; cat pg/PG_VERSION
start() { pg_ctl -D pg -o '-c listen_addresses= -c fsync=off -c max_connections=20 -c min_parallel_table_scan_size=0 -c parallel_setup_cost=0' -w -l server.log start > /dev/null; }
start; createdb b; q() { psql -qAtX -v ON_ERROR_STOP=1 b "$@"; }
q -c "show unix_socket_directories" -c "select current_user, inet_server_addr() is null"
pgbench -q -i -s 1 b 2> /dev/null; pgbench -n -c 4 -j 2 -t 25 b | grep -E 'processed|failed'
q -c 'select count(*) from pgbench_history' -c 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)'
q -c 'set max_parallel_workers_per_gather = 2' -c "explain (costs off) select count(*) from pgbench_accounts where abalance < 1000000" -c 'select count(*) from pgbench_accounts where aid % 7 = 0'
q <<'Q'
create table t(id serial primary key, word text unique, tags text[], at timestamptz default '2024-02-29 12:00:00+00', doc jsonb);
insert into t(word, tags, doc) select 'w' || i, array[i::text, (i * i)::text], jsonb_build_object('n', i, 'sq', i * i) from generate_series(1, 3000) i;
create index on t using gin(doc); analyze t;
select count(*), sum((doc->>'sq')::bigint) from t where doc @> '{"n": 77}' or 'w5' = word;
with recursive f(a, b) as (select 0::numeric, 1::numeric union all select b, a + b from f where b < 1e30) select max(b) from f;
select percentile_cont(0.5) within group (order by id), string_agg(word, ',' order by id) filter (where id < 4) from t;
select md5(string_agg(word || at::date, '' order by id)) from t;
create function fact(n int) returns numeric language plpgsql as $$ begin if n < 2 then return 1; end if; return n * fact(n - 1); end $$;
select fact(30);
begin; delete from t where id > 10; savepoint s; insert into t(word) values('x'); rollback to s; select count(*) from t; rollback;
select count(*) from t;
Q
q -c "insert into t(word) values('w1')" 2>&1 || echo "status $?"
asleep() { until [ "$(q -c "select count(*) from pg_stat_activity where wait_event = 'PgSleep'")" = $1 ]; do :; done; }
q -c "begin; update t set word = 'held' where id = 1; select pg_sleep(3); commit" > /dev/null & asleep 1
q -c "set lock_timeout = '50ms'; update t set word = 'b' where id = 1" 2>&1 | head -1; wait; q -c 'select word from t where id = 1'
(q -c "listen news" -c "select pg_sleep(2)" -c "select 1" > heard) & asleep 1; q -c "notify news, 'hello'"; wait; grep -o 'notification "news" with payload "hello"' heard
pg_dump -t t b > dump.sql; createdb c; psql -qX c < dump.sql > /dev/null; psql -qAtX c -c 'select count(*) from t' -c "select sum(id) from t where tags @> '{9}'"
q -c "create table kept as select generate_series(1, 500) i" -c checkpoint -c "insert into kept select generate_series(501, 700)"
kill -9 $(head -1 pg/postmaster.pid); sleep 1; while [ -n "$(pgrep postgres)" ]; do sleep 0.1; done; rm -f pg/postmaster.pid
start; q -c 'select count(*), sum(i) from kept'; grep -c 'not properly shut down' server.log
pg_ctl -D pg -m fast stop | tail -1
S
setpriv --reuid postgres --regid postgres --init-groups bash /tmp/as_postgres

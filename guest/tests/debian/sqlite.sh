# sqlite3: joins, windows, full-text search, transactions, a write-ahead log, integrity
# deb: sqlite3,dash,coreutils,grep,sed,findutils,diffutils,mawk
set -e
cd /tmp
sqlite3 t.db <<'S'
PRAGMA journal_mode = WAL;
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price REAL, shop INT);
CREATE INDEX by_shop ON item(shop, price);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO item SELECT i, printf('item %05d', i * 7919 % 20011), (i * 31 % 1000) / 10.0, i % 17 FROM n;
SELECT count(*), sum(price), min(name), max(name) FROM item;
SELECT shop, count(*), round(avg(price), 3) FROM item GROUP BY shop ORDER BY 3 DESC LIMIT 3;
SELECT shop, price, r FROM (SELECT shop, price, rank() OVER (PARTITION BY shop ORDER BY price DESC, id) r FROM item) WHERE r = 1 AND shop < 3;
CREATE VIRTUAL TABLE text USING fts5(body);
INSERT INTO text SELECT name || ' of shop ' || shop FROM item WHERE id < 2000;
SELECT count(*) FROM text WHERE text MATCH 'shop AND 13';
BEGIN; DELETE FROM item WHERE shop = 3; SELECT count(*) FROM item; ROLLBACK; SELECT count(*) FROM item;
SELECT json_extract('{"a": [1, 2, {"b": 3}]}', '$.a[2].b');
S
for n in 1 2 3 4; do
    (for i in $(seq 10); do sqlite3 -cmd '.timeout 20000' t.db "INSERT INTO item(name, price, shop) VALUES('new', $n, 100 + $n)"; done) &
done
wait
sqlite3 t.db 'SELECT shop, count(*) FROM item WHERE shop > 100 GROUP BY shop; PRAGMA integrity_check; PRAGMA wal_checkpoint(TRUNCATE); VACUUM; SELECT count(*) FROM item;'

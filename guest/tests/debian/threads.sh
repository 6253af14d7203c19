# Programs with many threads in Rust (ripgrep, fd, bat) and Go (fzf, gojq, restic)
# deb: ripgrep,fd-find,bat,fzf,gojq,restic,dash,coreutils,grep,sed,findutils,mawk,diffutils
# mem: 2G
# runs: when its suite is asked for
set -e
cd /tmp; export HOME=/tmp LC_ALL=C.UTF-8
mkdir -p tree; cd tree
for d in $(seq 40); do mkdir -p "d$d/e"; for f in $(seq 25); do seq "$f" 7 $((f * 60)) > "d$d/e/f$f"; done; done
echo "-- ripgrep"; rg --version | head -n 1; rg -j 8 -c '^1[0-9]*7$' . | sort | sha256sum; rg -j 8 --files . | wc -l; rg -j 8 --stats -q 77 . | grep -E 'matches|files' ; rg --no-ignore -j 1 -l '^1474$' . | wc -l
rg -U -o '7\n14\n' -j 4 d1 | sort | head -n 3; rg nothing . || echo "status $?"
echo "-- fd"; fdfind --version; fdfind -j 8 -t f '7$' | sort | sha256sum; fdfind -j 8 -t f -x wc -c {} \; 'f25$' | sort | uniq -c | head -n 2; fdfind -t d e -d 2 | wc -l; fdfind -j 4 -t f f1 d3 -X sha256sum | sort | sha256sum
echo "-- bat"; batcat --version | cut -c 1-6; batcat --color=always --style=full -l c --terminal-width 60 - < d1/e/f1 | sha256sum; batcat -p d2/e/f2 | head -n 2
echo "-- fzf"; fzf --version | cut -c 1-4; seq 100000 | fzf -f '9 7' | wc -l; find . | fzf -f "d17f25" | sort | head -n 3; seq 200000 | fzf -f 4242 --no-sort | sha256sum
echo "-- gojq"; seq 20000 | gojq -s 'map(. * 3) | add' ; echo '{"a":[1,{"b":2}]}' | gojq -c '[.. | numbers]'
echo "-- restic"; export RESTIC_PASSWORD=x RESTIC_REPOSITORY=/tmp/repo; restic init -q; restic backup -q . ; restic snapshots -c | tail -n 1; echo again >> d1/e/f1; restic backup -q .
restic diff $(restic snapshots --json | gojq -r '.[].short_id') | grep -E '^(M|Files|Dirs)'; restic check -q --read-data; restic restore latest -q --target /tmp/back; diff -r /tmp/back . && echo same
restic forget -q --keep-last 1 --prune; restic snapshots | tail -n 1; for n in 1 2 3 4; do restic backup -q --tag "t$n" "d$n" & done; wait; restic snapshots | tail -n 1
echo "-- many"; GOMAXPROCS=16 gojq -n '[range(100000)] | length'; for i in $(seq 8); do rg -j 4 -c '77$' "d$i" | sort | sha256sum & done | sort | uniq -c
wait

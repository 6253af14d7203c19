# Whatever processes did and however they ended, their memory comes back: to the last byte at the
# end of the session (which the test runner compares), and in its middle up to what this shell has
# in stock, which a page lost each time would exceed.
# timeout: 240
# expect-stdout: nothing lost\n

# This shell itself keeps what it has once used, so it does as little as it can: no function may
# run in it but this one, which waits until the number stands still.
free_now() {
    now=0
    until [ "$now" = "$last" ]; do
        last=$now
        sleep 0.05
        read -r name now </proc/tessera/memory
    done
}

pipelines() { seq 1 20000 | tac | sort -n | uniq | md5sum; yes | head -n 1; }
forks() { i=0; while [ $i -lt 50 ]; do (:); x=$(echo $i); i=$((i + 1)); done; }
programs() { i=0; while [ $i -lt 20 ]; do /bin/busybox true; i=$((i + 1)); done; }
files() {
    mkdir -p d/e/f && seq 1 50000 >d/e/f/numbers && cp d/e/f/numbers d/copy && mv d/copy d/e
    ln d/e/copy d/hard; ln -s nowhere d/soft; mkfifo d/fifo; rm -r d
}
archives() { mkdir t; seq 1 10000 >t/a; tar czf t.tgz t; rm -r t; tar xzf t.tgz; rm -r t t.tgz; }
killed() {
    for signal in TERM KILL SEGV; do sleep 100 & kill -$signal $!; wait $! 2>/dev/null; done
    yes >/dev/null & kill -9 $!; wait $! 2>/dev/null
    sort /dev/zero 2>/dev/null & sleep 0.2; kill -9 $!; wait $! 2>/dev/null
}
orphans() { sh -c '(sleep 0.1) & (sleep 0.2) & exit'; sleep 0.5; }
unlinked() { (exec 3>gone; rm gone; seq 1 20000 >&3); }
documents() { cat <<END; }
$(seq 1 20000)
END
blocked() { mkfifo p; cat p & sleep 0.1; kill $!; wait $! 2>/dev/null; rm p; }
many() { for n in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1 & done; wait; }
failing() { /nothing 2>/dev/null; ./memory.sh 2>/dev/null; cat nothing 2>/dev/null; cd nothing 2>/dev/null; }

all="pipelines forks programs files archives killed orphans unlinked documents blocked many failing"
stock=400000
lost=0
for work in $all; do ($work) >/dev/null 2>&1; done
for work in $all; do
    free_now
    before=$now
    (for n in 1 2 3 4 5; do $work; done) >/dev/null 2>&1
    free_now
    [ $((before - now)) -le $stock ] || { echo "$work: $((before - now)) bytes"; lost=1; }
done
[ $lost = 0 ] && [ "$now" -gt 0 ] && echo "nothing lost"

# Background jobs: wait and statuses, kill, job numbers, all without a terminal.

exec 2>/dev/null
status() { return "$1"; }

echo "wait for one"
(exit 7) &
wait $!
echo $?
sleep 0.1 &
wait $!
echo $?

echo "wait for several, in another order"
(sleep 0.2; exit 1) & one=$!
(sleep 0.1; exit 2) & two=$!
(exit 3) & three=$!
wait $three; echo $?
wait $one; echo $?
wait $two; echo $?

echo "wait for all"
for n in 1 2 3 4 5; do
    (echo "$n" >"out.$n") &
done
wait
echo $?
cat out.*
rm out.*

echo "ended by a signal"
sleep 100 & kill $!; wait $!; echo $?
sleep 100 & kill -9 $!; wait $!; echo $?
sleep 100 & kill -USR1 $!; wait $!; echo $?
sleep 100 & kill -SEGV $!; wait $! 2>/dev/null; echo $?
sh -c 'kill -TERM $$'; echo $?
sh -c 'kill -ABRT $$' 2>/dev/null; echo $?

echo "no child"
wait 99999; echo $?
sleep 0 & pid=$!; wait $pid; echo $?

echo "is it there?"
sleep 100 & pid=$!
kill -0 $pid; echo $?
kill $pid; wait $pid
kill -0 $pid 2>/dev/null; echo $?

echo "by job number"
sleep 100 &
sleep 101 &
kill %1; wait %1; echo $?
kill %2; wait %2; echo $?
(exit 6) & wait %1; echo $?

echo "stop and continue"
(sleep 0.3; echo went on) & pid=$!
kill -STOP $pid
sleep 0.6
echo stopped
kill -CONT $pid
wait $pid
echo $?

echo "background jobs read nothing"
cat & wait $!
echo $?

echo "a pipeline in the background"
seq 1 100 | sort -rn | head -n 1 & wait $!
echo $?

echo "thirty at a time"
i=0
pids=
while [ $i -lt 30 ]; do
    (exit $i) &
    pids="$pids $!"
    i=$((i + 1))
done
sum=0
for pid in $pids; do
    wait "$pid"
    sum=$((sum + $?))
done
echo $sum

echo "orphans go on"
rm -f mark
sh -c '(sleep 0.2; echo done >mark) & exit 4'
echo $?
sleep 0.6
cat mark
rm mark

echo "timeout"
timeout 0.2 sleep 100; echo $?
timeout 10 sh -c 'exit 5'; echo $?

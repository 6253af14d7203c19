# Traps: EXIT, INT by kill, USR1, ignored signals and what children inherit of them.

exec 2>/dev/null
echo "EXIT"
sh -c 'trap "echo leaving" EXIT; echo body'
sh -c 'trap "echo leaving with \$?" EXIT; exit 3'; echo $?
sh -c 'trap "exit 5" EXIT; exit 3'; echo $?
sh -c 'trap "echo never" EXIT; trap - EXIT; true'
(trap 'echo subshell leaves' EXIT; echo in a subshell)
sh -c 'trap "echo not me" EXIT; (echo inner); echo outer; trap - EXIT'

echo "INT by kill"
sh -c 'trap "echo got INT" INT; kill -INT $$; echo went on'
sh -c 'kill -INT $$; echo never'; echo $?
sh -c 'trap "echo cleaned; exit 9" INT; kill -INT $$; echo never'; echo $?

echo "USR1 and friends"
trap 'echo USR1' USR1
kill -USR1 $$
trap 'count=$((count + 1))' USR2
count=0
kill -USR2 $$
kill -USR2 $$
kill -USR2 $$
echo $count
trap
trap - USR1 USR2
trap

echo "while waiting"
trap 'echo woken' USR1
(sleep 0.2; kill -USR1 $$; sleep 0.4) & pid=$!
wait $pid
echo $?
wait $pid
echo $?
trap - USR1

echo "from a child"
trap 'echo from a child' USR1
sh -c 'kill -USR1 $PPID'
echo next

echo "ignored ones are inherited, handlers are not"
trap '' TERM
sh -c 'kill -TERM $$; echo survived'
trap - TERM
trap 'echo mine' TERM
sh -c 'kill -TERM $$; echo never'; echo $?
(kill -TERM "$(exec sh -c 'echo $PPID')"; echo never) 2>/dev/null; echo $?
trap - TERM

echo "a trap that runs commands"
trap 'x=$(seq 1 1000 | tail -n 1); echo "$x"' USR1
kill -USR1 $$
trap 'count=$((count + 1))' USR1
count=0
i=0
while [ $i -lt 200 ]; do kill -USR1 $$; i=$((i + 1)); done
echo $count
trap - USR1

echo "CHLD and PIPE"
trap 'echo PIPE' PIPE
kill -PIPE $$
trap - PIPE
sh -c 'trap "" PIPE; seq 1 100000 2>/dev/null; echo $? >&2' 2>status | head -n 1
[ "$(cat status)" != 141 ] && echo "no SIGPIPE"
rm status

echo "ALRM and HUP end a shell"
for signal in ALRM HUP; do
    sh -c "kill -$signal \$\$; echo never" 2>/dev/null; echo $?
done

trap 'echo the end' EXIT
echo last

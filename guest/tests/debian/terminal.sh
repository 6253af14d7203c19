# vim, tmux, htop, expect, screen and less on pseudoterminals
# deb: vim,tmux,htop,expect,less,procps,ncurses-base,ncurses-bin,dash,coreutils,grep,sed,findutils,diffutils,mawk
# mem: 1G
set -e
cd /tmp; export TERM=xterm LANG=C.UTF-8
seq 100 > f; vim -u NONE -N -es -c '%s/7/seven/g' -c 'g/^1/d' -c 'normal Goan end' -c 'wq' f || true; tail -2 f; grep -c seven f
cat > e.exp <<'X'
set timeout 60
spawn -noecho vim -u NONE -N g
send "ihello terminal\033yyp:wq\r"
expect eof
spawn -noecho sh
expect "# "
send "stty size; tty | cut -c 1-8; echo \$((5*5))\r"
expect -re "\n25\r"
send "sleep 100\r"; after 500; send "\003"; expect "# "
send "exit 4\r"; expect eof
puts "\nstatus [lindex [wait] 3]"
X
expect e.exp > e.out; tail -1 e.out; cat g
tmux -f /dev/null new-session -d -s s -x 80 -y 24 'sh'; sleep 1
tmux send-keys -t s 'echo in-$((1+1))-panes' Enter; sleep 1; tmux split-window -t s; tmux list-panes -t s -F '#{pane_index} #{pane_width}x#{pane_height}'
tmux capture-pane -p -t s.0 | grep '^in-'; tmux kill-server
cat > h.exp <<'X'
set timeout 60
log_user 0
spawn -noecho htop -C -d 2
expect {Tasks} {} default { puts "no tasks"; exit 1 }
# A filter by name, a signal to what it leaves, then the end.
send "\\777"; expect {sleep 777} {} default { puts "no sleep"; exit 1 }
send "\rk"; expect {SIGTERM} {} default { puts "no signals"; exit 1 }
send "\r"; after 1000; send "q"; expect eof
puts "htop [lindex [wait] 3]"
X
sleep 777 & s=$!; expect h.exp; wait $s || echo "sleep $?"
top -b -n 1 -w 200 | awk '/^Tasks:/ { print "top", ($2 > 1) } $NF == "top" { seen++ } END { print "seen", seen }'

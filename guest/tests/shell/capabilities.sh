# The list of capabilities is a tree whose parts lie inside what they were made from, it follows
# what processes do, and says whose each is.
count() { grep -c " $1 " /proc/tessera/capabilities; }
# How many Frames are theirs alone.
frames_of() { awk -v who="$1" '$2 == "Frame" && $6 == who { n++ } END { print n + 0 }' /proc/tessera/capabilities; }

awk '
    NF != 6 || $1 > depth + 1 { print "wrong line", NR, $0 }
    NR == 1 && $1 != 0 { print "begins below a root", $0 }
    $2 == "Mapping" && $1 == 0 { print "nothing mapped", $0 }
    $6 ~ /@/ { print "nobody has it", $0 }
    { depth = $1; seen[$2]++; split($6, names, ","); for (i in names) who[names[i]]++ }
    END { print (seen["Ram"] && seen["Frame"] && seen["L1CNode"] && seen["Pml4"]) ? "all types" : "types are missing"
          print (who["init"] && who["memd"] && who["unixd"]) ? "all servers" : "servers are missing" }
' /proc/tessera/capabilities

dispatchers=$(count Dispatcher)
sleep 1000 &
first=$!
sleep 1000 &
second=$!
echo $(($(count Dispatcher) - dispatchers)) more dispatchers
# The same program has as many pages each time, each process its own.
until [ "$(cat /proc/$first/comm /proc/$second/comm)" = "sleep
sleep" ]; do :; done
until grep -q '^State:.S' /proc/$first/status && grep -q '^State:.S' /proc/$second/status; do :; done
frames=$(frames_of $first:sleep)
[ $frames -gt 5 ] && [ $frames = $(frames_of $second:sleep) ] && echo each has its Frames
# A page table shows somebody's pages, and the page table is that one's.
for pid in $first $second; do
    awk -v who="$pid:sleep" '$2 == "Pml4" && $6 == who { n++ } END { print n, "root table" }' /proc/tessera/capabilities
done
kill $first $second
wait
echo $(($(count Dispatcher) - dispatchers)) more when they have ended
echo $(grep -c :sleep /proc/tessera/capabilities) are of those who have ended

# What a fork shares is of both, until one writes: then each has one.
mkfifo wait
( read line < wait; : ) &
child=$!
until grep -q '^State:.S' /proc/$child/status; do :; done
# Whoever counts is a fork, too.
awk -v both="$$:sh,$child:sh" '
    $2 == "Frame" && index($6, both) == 1 { n++ }
    END { print (n > 1) ? "parent and child share Frames" : "parent and child share nothing" }
' /proc/tessera/capabilities
echo > wait
wait
echo $(grep -c ",$child:" /proc/tessera/capabilities) shared with who has ended

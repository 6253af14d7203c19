# The list of capabilities is a tree whose parts lie inside what they were made from, and it follows
# what processes do.
count() { grep -c " $1 " /proc/tessera/capabilities; }

awk '
    NF != 5 || $1 > depth + 1 { print "wrong line", NR, $0 }
    NR == 1 && $1 != 0 { print "begins below a root", $0 }
    $2 == "Mapping" && $1 == 0 { print "nothing mapped", $0 }
    { depth = $1; seen[$2]++ }
    END { print (seen["Ram"] && seen["Frame"] && seen["L1CNode"] && seen["Pml4"]) ? "all types" : "types are missing" }
' /proc/tessera/capabilities

dispatchers=$(count Dispatcher)
sleep 1000 &
sleep 1000 &
echo $(($(count Dispatcher) - dispatchers)) more dispatchers
kill %1 %2
wait
echo $(($(count Dispatcher) - dispatchers)) more when they have ended

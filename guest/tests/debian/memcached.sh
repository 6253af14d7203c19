# memcached with its cache on persistent memory (-e): stopped and started again on another boot it has all of it; stopped without being asked it begins anew
# deb: memcached,dash,bash,coreutils
# mem: 512M
# nvdimm: 256M
# boots: 3
exec 2>&1
# It counts time in seconds, and passes over what it has from the one in which it is started.
sleep 2
bash -c '
boot=$(cat /pmem/boots 2>/dev/null || echo 0); echo $((boot + 1)) > /pmem/boots; echo "boot $((boot + 1))"
memcached -u root -l 127.0.0.1 -p 11222 -m 64 -e /pmem/cache > /dev/null 2>&1 & server=$!
until exec 3<>/dev/tcp/127.0.0.1/11222; do sleep 0.2; done 2>/dev/null
ask() { printf "$1\r\n" >&3; IFS= read -r line <&3; echo "${line%?}"; }
value() { printf "get $1\r\n" >&3; while IFS= read -r line <&3 && [ "${line%?}" != END ]; do printf "%s " "${line%?}"; done; echo; }
sum() { for n in $(seq 40); do value key$n; done | sha256sum; }
echo "first get: $(value greeting)"
case $boot in
0)
    ask "set greeting 7 0 5\r\nhello"; ask "set number 0 0 2\r\n41"; ask "incr number 1"
    for n in $(seq 40); do ask "set key$n 0 0 100\r\n$(printf %0100d $n)"; done | sort | uniq -c
    ask "delete key17"; ask "set short 0 3600 4\r\nsoon"; sum
    kill -USR1 $server; wait $server; echo "ended with $?" ;;
1)
    sum; value number; ask "incr number 1"; value short; ask "append greeting 0 0 6\r\n again"; value greeting
    kill -KILL $server; wait $server 2>/dev/null; echo "killed: $?" ;;
2)
    value key1; ask "set greeting 0 0 2\r\nhi"; value greeting
    kill -USR1 $server; wait $server; echo "ended with $?" ;;
esac'

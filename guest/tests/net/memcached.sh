# memcached with its cache on persistent memory, in three boots: it is filled and stopped in order; it is changed, and the emulator is killed; what is left.
# $1: the boot. The file is failure-atomic from the second one on.
exec 2>&1
# It counts time in seconds, and passes over what it has from the one in which it is started.
sleep 2
start() {
    memcached -u root -l 127.0.0.1 -p 11222 -m 64 -e $1 > /dev/null 2>&1 & server=$!
    until exec 3<>/dev/tcp/127.0.0.1/11222; do sleep 0.2; done 2>/dev/null
}
stop() { exec 3>&-; kill -USR1 $server; wait $server; }
ask() { printf "$1\r\n" >&3; IFS= read -r line <&3; line=${line%?}; }
value() { printf "get $1\r\n" >&3; while IFS= read -r line <&3 && [ "${line%?}" != END ]; do printf "%s " "${line%?}"; done; }
all() { for n in $(seq 40); do value key$n; done | sha256sum | cut -c 1-16; }
fill() { for n in $(seq 40); do ask "set key$n 0 0 100\r\n$(printf %0100d $1$n)"; [ "$line" = STORED ] || echo "$line"; done; }
case $1 in
1)
    start /pmem/cache; fill 1; echo "filled $(all)"; stop
    # Its own word on what is in the cache, which it takes away as it starts.
    cp /pmem/cache.meta /pmem/kept ;;
2)
    perl -e 'open F, "+<", "/pmem/cache" or die; ioctl(F, 0xa701, 1) or die "no"'
    start /pmem/cache; echo "begun $(all)"
    fill 2; for n in $(seq 20); do ask "delete key$n"; ask "set new$n 0 0 3\r\nnew"; done
    echo "changed $(all)"
    sleep 1000 ;;
3)
    ls /pmem/cache.meta > /dev/null 2>&1 && echo "it has its word"
    cp /pmem/cache /pmem/other
    start /pmem/other; echo "anew $(value key1)"; stop
    cp /pmem/kept /pmem/cache.meta
    start /pmem/cache; echo "left $(all) $(value new1)"; stop ;;
esac

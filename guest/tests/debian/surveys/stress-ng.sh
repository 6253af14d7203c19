# Every stressor of stress-ng by itself, with --verify, for a few operations: what stress-ng says of it
# deb: stress-ng,bash,coreutils,grep,sed,procps
# mem: 1G
# cores: 2
# timeout: 3600
cd /tmp
for name in ${*:-$(stress-ng --stressors)}; do
    within=
    # It ends numbers that it has never set, of which one or the other is somebody's.
    [ $name = resources ] && within='busybox unshare -p -f'
    $within timeout -k 2 40 stress-ng --verify --pathological --$name 1 --$name-ops 20 -t 3 > said 2>&1
    status=$?
    why=$(sed -n 's/^stress-ng: \(fail\|error\|info\|warn\): *\[[0-9]*\] *//p' said | grep -E -m 1 'fail|error|unexpected|skipp|not |cannot|early' | tr -d '\n' | cut -c 1-160)
    if grep -q '^stress-ng: fail:' said || [ $status = 2 ] || [ $status -ge 124 ]; then echo "$name fails: ${why:-status $status}"
    elif grep -qE 'skipp|No stress workers|not implemented|not supported|out of system resources' said; then echo "$name skipped: $why"
    elif [ $status = 0 ]; then echo "$name passes"
    else echo "$name fails: status $status $why"; fi
    pkill -9 stress-ng; rm -rf tmp-stress*
done

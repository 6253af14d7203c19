# Modules of Python's own test suite, each by itself: whether it passes
# deb: libpython3.11-testsuite,python3,bash,coreutils,grep,sed,procps
# mem: 2G
# timeout: 14400
cd /tmp
export LC_ALL=C.UTF-8 TERM=dumb
for name in ${*:-$(cd /usr/lib/python3.11/test; ls -d test_*.py test_*/ | sed 's/\.py$//; s,/$,,')}; do
    timeout -k 5 600 python3 -m test $name > said 2>&1 < /dev/null
    status=$?
    if [ $status = 0 ]; then
        if grep -q '^1 test skipped:' said; then echo "$name skipped: $(grep -m 1 ' skipped -- ' said | sed 's/.* skipped -- //' | cut -c 1-160)"; else echo "$name passes"; fi
    else
        # Which tests, which only a run with more words says; of the module if it is the module.
        [ $status = 2 ] && timeout -k 5 600 python3 -m test -v $name > said 2>&1 < /dev/null
        which=$(sed -n 's/^\(FAIL\|ERROR\): \([^ ]*\).*/\2/p' said | sort -u | tr '\n' ' ' | cut -c 1-300)
        echo "$name fails: ${which:-status $status}"
    fi
    rm -rf test_python_*
done

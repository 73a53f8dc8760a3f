#!/usr/bin/env bash
# The extension exports its entry point and nothing else: a host may have symbols of the same names. And it has
# the usual limits, not those of tests.
set -u
cd "$(dirname "$0")/../.." || exit 1
exported=$(nm -D --defined-only build/memwal.so | awk '{print $NF}' | sed 's/@.*//' | sort -u)
limits=$(sqlite3 -batch -init /dev/null -cmd '.load build/memwal' :memory: 'SELECT memwal_debug()')
case $limits in
*", limits usual,"*) ;;
*)
    echo "build/memwal.so is not what is shipped, expected usual limits: $limits"
    exit 1
    ;;
esac
[ "$exported" = sqlite3_memwal_init ] && exit 0
echo "build/memwal.so exports:"
echo "$exported"
exit 1

#!/usr/bin/env bash
# The engine reaches the machine through env.h only: of libc its objects call what moves bytes about.
set -u
cd "$(dirname "$0")/../.." || exit 1

allowed='mem(cpy|move|set|cmp|chr)|str(len|cmp|ncmp|chr|rchr|cpy|spn|cspn)|strerror_r|__xpg_strerror_r'
allowed="$allowed|v?snprintf|__v?snprintf_chk|__mem(cpy|move|set)_chk|__stack_chk_fail|__assert_fail"
allowed="$allowed|(__isoc(99|23)_)?(sscanf|strtoull)|qsort|bsearch|_GLOBAL_OFFSET_TABLE_"
rc=0
for object in build/plain/core/*.o; do
    own='mw_[a-z0-9_]+'
    case $object in
    */env_posix.o) continue ;;
    */codec.o) own="$own|ZSTD_[A-Za-z0-9_]+" ;;
    esac
    calls=$(nm -u "$object" | awk '{print $NF}' | grep -vxE "$allowed|$own" | tr '\n' ' ')
    [ -z "$calls" ] || { echo "$object calls $calls"; rc=1; }
done
exit $rc

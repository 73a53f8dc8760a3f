#!/usr/bin/env bash
# The extension exports its entry point and nothing else: a host may have symbols of the same names.
set -u
cd "$(dirname "$0")/../.." || exit 1
exported=$(nm -D --defined-only build/memwal.so | awk '{print $NF}' | sed 's/@.*//' | sort -u)
[ "$exported" = sqlite3_memwal_init ] && exit 0
echo "build/memwal.so exports:"
echo "$exported"
exit 1

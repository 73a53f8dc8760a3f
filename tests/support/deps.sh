#!/usr/bin/env bash
# deps.sh build|demo|test: makes sure that what the step needs is there. Costs a few milliseconds when it
# is. Missing Debian packages are installed by root or where sudo asks for no password; else the one line
# to run is printed.
set -u

step=${1:-build}
compiler=${CC:-gcc}
missing=()

have() { command -v "$1" >/dev/null 2>&1; }
header() { printf '#include <stddef.h>\n#include <stdarg.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <%s>\n' "$1" |
    "$compiler" -E -x c - -o /dev/null >/dev/null 2>&1; }
library() { case $("$compiler" -print-file-name="$1" 2>/dev/null) in /*) return 0 ;; *) return 1 ;; esac; }

# need PACKAGE TEST...: notes the package when the test fails.
need() {
    local package=$1
    shift
    "$@" || missing+=("$package")
}

# The sanitizers' package carries clang's version in its name.
clang_runtime() {
    local major
    major=$(clang -dumpversion 2>/dev/null || apt-cache depends clang 2>/dev/null | sed -n 's/.*clang-\([0-9]*\)$/\1/p')
    echo "libclang-rt-${major%%.*}-dev"
}
have_clang_runtime() {
    local file
    file=$(clang -print-file-name="libclang_rt.tsan-$(uname -m).a" 2>/dev/null) && [ -e "$file" ]
}

need gcc have gcc
need make have make
need libsqlite3-dev header sqlite3ext.h
need libzstd-dev header zstd.h
[[ ${missing[*]-} == *libzstd-dev* ]] || need libzstd-dev library libzstd.a
need libxxhash-dev header xxhash.h
if [ "$step" = demo ] || [ "$step" = test ]; then
    need sqlite3 have sqlite3
fi
if [ "$step" = test ]; then
    need libcmocka-dev header cmocka.h
    need clang have clang
    need "$(clang_runtime)" have_clang_runtime
    need strace have strace
    need python3 test -x /usr/bin/python3
    need python3-xxhash /usr/bin/python3 -c 'import xxhash' 2>/dev/null
    need python3-zstandard /usr/bin/python3 -c 'import zstandard' 2>/dev/null
fi
[ ${#missing[@]} -gt 0 ] || exit 0

line="apt-get install -y --no-install-recommends ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if have sudo && sudo -n true 2>/dev/null; then as_root=(sudo -n); else as_root=(false); fi
fi
if have apt-get && [ "${as_root[*]-}" != false ]; then
    echo "installing: ${missing[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    "${as_root[@]}" $line >/dev/null 2>&1 && exit 0
    "${as_root[@]}" apt-get update >/dev/null 2>&1
    # shellcheck disable=SC2086
    "${as_root[@]}" $line >&2 && exit 0
fi
printf 'memwal needs packages that are not installed. Run:\n\n    sudo %s\n\n' "$line" >&2
exit 1

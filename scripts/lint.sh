#!/usr/bin/env bash
# Checks the layout of all sources and looks for mistakes in them; changes nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What git knows or would take: not what a build has left lying about.
files() { git ls-files --cached --others --exclude-standard -- "$@"; }

mapfile -t c_files < <(files '*.c' '*.h')
mapfile -t c_units < <(files '[0-9]*/main.c' 'lib/*.c')
mapfile -t shell_files < <(files '*.sh' .ci/run scripts/lab scripts/fresh deploy/files/sweep)

echo 'lint: clang-format'
clang-format --dry-run --Werror "${c_files[@]}"
echo 'lint: clang-tidy'
printf '%s\0' "${c_units[@]}" |
    xargs -0 -n 1 -P "$(nproc)" sh -c 'clang-tidy --quiet "$@" -- -std=gnu17 -D_GNU_SOURCE -Ilib 2>&1 |
        { ! grep -vE "^[0-9]+ warnings? generated"; }' clang-tidy
echo 'lint: warnings of gcc and clang'
for compiler in gcc clang; do
    make --no-print-directory --silent -j2 all unit-programs floor CC="$compiler" \
        BUILD="build/lint/$compiler/objects" BIN="build/lint/$compiler" \
        FLOOR="build/lint/$compiler/floor" CPPFLAGS=-Werror
done
echo 'lint: cppcheck'
# The loops of uthash and utlist, which are not to be read themselves.
cppcheck --quiet -j "$(nproc)" --std=c11 --library=posix --error-exitcode=1 \
    --enable=warning,performance,portability --suppress=missingIncludeSystem --inline-suppr \
    -D_GNU_SOURCE -Ilib '-DDL_FOREACH(a,b)=for(b=a;b;b=b->next)' \
    '-DDL_FOREACH_SAFE(a,b,c)=for(b=a;b;b=c)' '-DHASH_ITER(h,a,b,c)=for(b=a;b;b=c)' \
    "${c_units[@]}"
echo 'lint: shellcheck'
shellcheck "${shell_files[@]}"
echo 'lint: ruff'
.venv/bin/ruff check --quiet .
.venv/bin/ruff format --check --quiet .
echo 'lint: mypy'
.venv/bin/mypy --no-error-summary bench lab
echo 'lint: the rooms and their doors'
.venv/bin/lint-imports --no-logo >build/lint/imports || { cat build/lint/imports; exit 1; }

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Check the layout of all sources, and find mistakes. This script changes no source.
#
#     scripts/lint.sh [PART...]       layout tidy warnings shell python types structure licence prose
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
cd "$project"

# Set the array `files` to the files that git tracks or would add, without results of a build. Git
# rejects another user's folder unless safe.directory contains it. A check without files must fail.
list() {
    local found
    found=$(git -c safe.directory='*' ls-files --cached --others --exclude-standard -- "$@") || found=
    [[ -n $found ]] || { echo "lint: git lists nothing for $1 in $PWD" >&2; exit 2; }
    mapfile -t files <<<"$found"
}

# clang-format is pinned, because each version formats a few lines differently.
lint_layout() {
    list '*.c' '*.h'
    .venv/bin/clang-format --dry-run --Werror "${files[@]}"
}

# A file that has passed is checked again only if it, its headers, the rules or clang-tidy change.
lint_tidy() {
    list '[0-9]*/*.c' 'lib/*.c' 'ops/*.c' 'baselines/*.c'
    mkdir -p build/lint/tidy
    # shellcheck disable=SC2016 # sh expands the variables
    printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" sh -c '
        set -- "$1" -std=gnu17 -D_GNU_SOURCE -Ilib
        headers=$(gcc -MM "$@" | sed "s/^[^:]*://; s/\\\\$//")
        passed=build/lint/tidy/$(clang-tidy --version | cat - .clang-tidy $headers | sha256sum | cut -c 1-64)
        [ -e "$passed" ] || { file=$1 && shift && clang-tidy --quiet "$file" -- "$@" 2>&1 |
            { ! grep -vE "^[0-9]+ warnings? generated"; } && touch "$passed"; }' clang-tidy
}

lint_warnings() {
    local compiler
    for compiler in gcc clang; do
        make --no-print-directory --silent -j2 all unit-programs baselines CC="$compiler" \
            BUILD="build/lint/$compiler/objects" BIN="build/lint/$compiler" \
            BASELINE="build/lint/$compiler/baselines" CPPFLAGS=-Werror
    done
}

lint_shell() {
    list '*.sh' .ci/run scripts/lab scripts/fresh deploy/files/sweep
    shellcheck "${files[@]}"
}

lint_python() {
    .venv/bin/ruff check --quiet .
    .venv/bin/ruff format --check --quiet .
}

lint_types() { .venv/bin/mypy --no-error-summary bench lab; }

lint_structure() {
    mkdir -p build/lint
    .venv/bin/lint-imports --no-logo >build/lint/imports || { cat build/lint/imports; return 1; }
}

# The files that need no licence line; all other files have it in their first three lines.
not_licensed=(
    LICENSE '*.md'                      # texts for readers: README names the licence
    'public/*' 'templates/*'            # the served files, whose bytes are measured
    '*.json' '*.csv' '*.png' '*.gz'     # formats without comments
    '*/ldflags'                         # options of the linker: a format without comments
    'tests/fuzz/corpus/*' '**/recorded/*' tests/e2e/kinds/cost.txt tests/e2e/kinds/claims.txt tests/e2e/http/cases.txt  # inputs and recorded data
    '*.patch'                           # changes of files that have the licence line
    'requirements/*.txt' '*/go.sum'     # written by tools
)
lint_licence() {
    local file bad=0
    list . "${not_licensed[@]/#/:(exclude)}"
    for file in "${files[@]}"; do
        # No pipe: grep ends at the match, and head would fail with SIGPIPE.
        if ! grep -q 'SPDX-License-Identifier: MIT' <(head -n 3 "$file"); then
            echo "$file: no line SPDX-License-Identifier: MIT"
            bad=1
        fi
    done
    return "$bad"
}

# Find the words in scripts/words.toml, which the text avoids.
lint_prose() {
    list '*.md' '*.c' '*.h' '*.py' '*.sh' '*.toml' '*.css' '*.js' '*.html' '*.j2' Makefile .ci/run \
        scripts/lab scripts/fresh ':(exclude)scripts/words.toml'
    printf '%s\0' "${files[@]}" | xargs -0 .venv/bin/python scripts/prose.py
}

readonly all=(layout tidy warnings shell python types structure licence prose)
(($#)) || set -- "${all[@]}"
for part in "$@"; do
    [[ " ${all[*]} " == *" $part "* ]] || { echo "lint: no part $part; parts: ${all[*]}" >&2; exit 2; }
    echo "lint: $part"
    "lint_$part"
done

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks the layout of all sources and looks for mistakes in them; changes nothing.
#
#     scripts/lint.sh [PART...]       layout tidy warnings shell python types rooms licence
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What git knows or would take: not what a build has left lying about.
files() { git ls-files --cached --others --exclude-standard -- "$@"; }

mapfile -t c_files < <(files '*.c' '*.h')
mapfile -t c_units < <(files '[0-9]*/main.c' 'lib/*.c')
mapfile -t shell_files < <(files '*.sh' .ci/run scripts/lab scripts/fresh deploy/files/sweep)

# Pinned, for each version of it lays a few lines out otherwise.
lint_layout() { .venv/bin/clang-format --dry-run --Werror "${c_files[@]}"; }

lint_tidy() {
    printf '%s\0' "${c_units[@]}" |
        xargs -0 -n 1 -P "$(nproc)" sh -c 'clang-tidy --quiet "$@" -- -std=gnu17 -D_GNU_SOURCE -Ilib 2>&1 |
            { ! grep -vE "^[0-9]+ warnings? generated"; }' clang-tidy
}

lint_warnings() {
    local compiler
    for compiler in gcc clang; do
        make --no-print-directory --silent -j2 all unit-programs floor CC="$compiler" \
            BUILD="build/lint/$compiler/objects" BIN="build/lint/$compiler" \
            FLOOR="build/lint/$compiler/floor" CPPFLAGS=-Werror
    done
}

lint_shell() { shellcheck "${shell_files[@]}"; }

lint_python() {
    .venv/bin/ruff check --quiet .
    .venv/bin/ruff format --check --quiet .
}

lint_types() { .venv/bin/mypy --no-error-summary bench lab; }

lint_rooms() {
    mkdir -p build/lint
    .venv/bin/lint-imports --no-logo >build/lint/imports || { cat build/lint/imports; return 1; }
}

# A line within the first three of every source. What is served or recorded stays as it is.
lint_licence() {
    local file bad=0
    while read -r file; do
        if ! head -n 3 "$file" | grep -q 'SPDX-License-Identifier: MIT'; then
            echo "$file: no line SPDX-License-Identifier: MIT"
            bad=1
        fi
    done < <(files '*.c' '*.h' '*.py' '*.sh' '*.yml' '*.yaml' '*.toml' '*.cff' Makefile .ci/run \
        scripts/lab scripts/fresh deploy/files/sweep .editorconfig .devcontainer/Dockerfile \
        .clang-format .clang-tidy .gitignore)
    return "$bad"
}

readonly all=(layout tidy warnings shell python types rooms licence)
(($#)) || set -- "${all[@]}"
for part in "$@"; do
    [[ " ${all[*]} " == *" $part "* ]] || { echo "lint: no part $part; parts: ${all[*]}" >&2; exit 2; }
    echo "lint: $part"
    "lint_$part"
done

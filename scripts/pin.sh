#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Writes requirements/*.txt from requirements/*.in: exact versions, and hashes for pip to check.
#
#     scripts/pin.sh              add missing packages; keep the versions that are already pinned
#     scripts/pin.sh --upgrade    pin the newest version of each package
#
# Each list is for the oldest supported version of Python and all later versions. The lists name no
# package index: pip uses its configured index, and checks the hashes.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
cd "$project"

scripts/setup.sh lint
oldest=$(sed -n 's/^readonly oldest_python=//p' scripts/setup.sh)
for name in bench hosts test lint site similar; do # the other lists use the versions of bench
    .venv/bin/uv pip compile --quiet --universal --python-version "$oldest" \
        --fork-strategy fewest --generate-hashes --no-emit-index-url --no-emit-find-links \
        --annotation-style line --custom-compile-command scripts/pin.sh \
        "requirements/$name.in" --output-file "requirements/$name.txt" "$@"
done

#!/bin/sh
# SPDX-License-Identifier: MIT
# npm ci into a folder of the build, once for each lock file.
#
#     build.sh FOLDER
set -eu
node -e "process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)" || {
    echo "Node $(node --version) is older than 18" >&2
    exit 1
}
mkdir -p "$1"
cp server.js package.json "$1/"
if cmp -s package-lock.json "$1/.installed"; then exit; fi
cp package-lock.json "$1/"
(cd "$1" && npm ci --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error)
cp package-lock.json "$1/.installed"

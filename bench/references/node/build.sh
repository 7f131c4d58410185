#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Run npm ci in a build folder, once for each lock file.
#
#     build.sh FOLDER
set -euo pipefail

readonly out=${1:?}

node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || {
    echo "Node $(node --version) is older than 18" >&2
    exit 1
}
mkdir -p "$out"
cp server.js package.json "$out/"
if cmp --silent package-lock.json "$out/.installed"; then exit; fi
cp package-lock.json "$out/"
# The lock file has digests, so npm need not check cached packages in the network: this check took two
# minutes on a host without a network.
(cd "$out" && npm ci --prefer-offline --omit=dev --ignore-scripts \
    --no-audit --no-fund --loglevel=error)
cp package-lock.json "$out/.installed"

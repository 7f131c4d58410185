#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Build Traefik from its Go module, because Debian and Ubuntu have no package of Traefik. The build runs only
# on request, because it downloads about 2.3 GB and takes seven minutes on two cores (once).
#
#     bench/references/traefik/build.sh
#
# `go install` rejects Traefik, because its go.mod replaces modules. So the source is copied and built as the
# main module. The web interface is disabled and not built: an empty page replaces it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly module=github.com/traefik/traefik/v3 version=v3.6.12
out=$(cd ../../.. && pwd)/build/references
source=$out/traefik-source

mkdir -p "$out"
folder=$(go mod download -json "$module@$version" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p')
rm -rf "$source"
cp -r "$folder" "$source"
chmod -R u+w "$source"
mkdir -p "$source/webui/static"
touch "$source/webui/static/index.html"
cd "$source"
go build -o "$out/traefik" -ldflags "-X github.com/traefik/traefik/v3/pkg/version.Version=$version" \
    ./cmd/traefik
rm -rf "$source"
"$out/traefik" version

#!/bin/sh
# SPDX-License-Identifier: MIT
# Execute nginx: start.sh FOLDER CONFIGURATION [WORD...]
#
# Before nginx reads its configuration, it opens a log whose path is set at build time. Option -e, which
# selects another log, exists since nginx 1.19.5 (Ubuntu 22.04 has 1.18).
set -eu
PATH=$PATH:/usr/sbin # where Debian puts nginx
folder=$1
configuration=$2
shift 2

# With one core, the configuration's values apply: one worker and no master process.
if [ "$(nproc)" -gt 1 ]; then
    many="s/^master_process off;/master_process on;/; s/^worker_processes 1;/worker_processes $(nproc);/"
    sed -i "$many" "$folder/$configuration"
    set -- -g "user $(id -un);" "$@" # by default, workers that root starts run as another user
fi
if nginx -h 2>&1 | grep -q '^  -e '; then set -- -e stderr "$@"; fi
exec nginx -p "$folder" -c "$folder/$configuration" "$@"

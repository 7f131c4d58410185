#!/bin/sh
# SPDX-License-Identifier: MIT
# Becomes nginx: start.sh FOLDER CONFIGURATION [WORD...]
#
# Before it reads its configuration nginx opens the log that it was built for, the system's, unless it is
# told otherwise by -e, which is known since 1.19.5 (Ubuntu 22.04 has 1.18).
set -eu
PATH=$PATH:/usr/sbin # where Debian puts nginx
folder=$1
configuration=$2
shift 2

if nginx -h 2>&1 | grep -q '^  -e '; then set -- -e stderr "$@"; fi
exec nginx -p "$folder" -c "$folder/$configuration" "$@"

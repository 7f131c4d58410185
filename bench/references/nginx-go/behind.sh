#!/bin/sh
# SPDX-License-Identifier: MIT
# Run nginx in front of a program: behind.sh FOLDER PROGRAM [WORD...]
#
# Start the program; when it listens (it has written a line, or FOLDER/behind.sock exists), start nginx
# with FOLDER/front.conf. End the program and nginx at SIGTERM or SIGINT, or when nginx ends; if this shell is
# killed, the kernel ends them.
set -u
folder=$1
shift

front=
end() {
    trap '' TERM INT
    # shellcheck disable=SC2086  # there may be no nginx yet
    kill $front "$behind" 2> /dev/null
    wait
    exit "$1"
}

setpriv --pdeathsig TERM -- "$@" > "$folder/behind.out" &
behind=$!
trap 'end 0' TERM INT
until [ -s "$folder/behind.out" ] || [ -S "$folder/behind.sock" ]; do
    kill -0 "$behind" 2> /dev/null || end 1 # the program's error message is on standard error
    sleep 0.02
done

# One worker for each core that nginx may use; `auto` would count all cores. The workers run as this script's
# user, who may read the folder.
setpriv --pdeathsig TERM -- sh "$folder/start.sh" "$folder" front.conf \
    -g "user $(id -un); worker_processes $(nproc);" &
front=$!
wait "$front"
end "$?"

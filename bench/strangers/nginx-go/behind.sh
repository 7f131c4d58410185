#!/bin/sh
# SPDX-License-Identifier: MIT
# nginx, and behind it a program: behind.sh FOLDER PROGRAM [WORD...]
#
# Starts the program; when it listens (it has written a line, or there is FOLDER/behind.sock), nginx
# with FOLDER/front.conf. Ends both when it is told to, or when nginx ends; the kernel does if this
# shell is killed.
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
    kill -0 "$behind" 2> /dev/null || end 1 # what it has said stands on standard error
    sleep 0.02
done

# As many workers as there are cores to run on: `auto` would count those that it may not use, too. They
# stay the user that we are, who may read the folder.
setpriv --pdeathsig TERM -- sh "$folder/start.sh" "$folder" front.conf \
    -g "user $(id -un); worker_processes $(nproc);" &
front=$!
wait "$front"
end "$?"

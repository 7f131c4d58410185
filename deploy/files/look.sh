# SPDX-License-Identifier: MIT
# Examines a host and changes nothing. Prints NAME=VALUE lines. The host's /bin/sh runs the text of this
# file, so the host needs no Python. Before this text, the playbook sets `folder`, `key_comment` (the
# end of the agents' line in authorized_keys) and `needs`.
# shellcheck shell=sh disable=SC2154
PATH=$PATH:/usr/sbin:/sbin
say() { printf '%s=%s\n' "$1" "$2"; }

say uid "$(id -u)"
say user "$(id -un)"
say group "$(id -gn)"
say home "$HOME"
say machine "$(uname -m)"
say python "$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)"
say apt "$(command -v apt-get)"
say descriptors "$(prlimit --nofile --output HARD --noheadings 2>/dev/null | tr -d ' ')"
say free_mb "$({ df -Pm /opt 2>/dev/null || df -Pm /; } | awk 'NR == 2 { print $4 }')"

# SSH_CONNECTION has four words: the client's address and port, and the address and port of sshd.
# With NAT, sshd's address is not the address to which clients connect.
# shellcheck disable=SC2086
set -- ${SSH_CONNECTION-}
say ssh_address "${3:-127.0.0.1}"
say ssh_port "${4:-22}"

say agents_line "$(grep -c " $key_comment\$" ~/.ssh/authorized_keys 2>/dev/null | sed s/^0//)"

missing=
while IFS='|' read -r package test; do
    [ -z "$package" ] || sh -c "$test" </dev/null >/dev/null 2>&1 || missing="$missing $package"
done <<NEEDS
$needs
NEEDS
say missing "${missing# }"

# The playbook has made the folder if it contains .deploy. Print the digests in .deploy.
if [ -d "$folder/.deploy" ]; then
    say state ours
elif [ -e "$folder" ] && [ -n "$(ls -A "$folder")" ]; then
    say state foreign
else
    say state absent
fi
for stamp in tree packages built; do
    say "$stamp" "$(cat "$folder/.deploy/$stamp" 2>/dev/null)"
done

# Sweeps and agents are recognised by their working folder. Only root sees the working folders of
# other users' processes.
sweeps=
agents=
for process in /proc/[0-9]*; do
    [ "$(readlink "$process/cwd" 2>/dev/null)" = "$folder" ] || continue
    case $(tr '\0' ' ' <"$process/cmdline" 2>/dev/null) in
    *"-m bench.stations.agent"*) agents="$agents ${process#/proc/}" ;;
    *"-m bench sweep"*) sweeps="$sweeps ${process#/proc/}" ;;
    esac
done
say sweeps "${sweeps# }"
say agents "${agents# }"

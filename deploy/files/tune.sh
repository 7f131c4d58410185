# SPDX-License-Identifier: MIT
# The kernel's settings for the benchmark, and the number of open files; run by root. Prints `changed`
# for each thing that it had to change, `absent=NAME` for a setting that this kernel does not have
# and that may be missing, `lacks=NAME` for a required one. The playbook sets `folder`, `conf` (what
# is to be in sysctl_file), `sysctl_file`, `limits_file`, and of the user who logs in `user` and
# `descriptors`, the limit in force; `descriptors_wanted` is what it should be.
# shellcheck shell=sh disable=SC2154
PATH=$PATH:/usr/sbin:/sbin
umask 022
before=$folder/.deploy/sysctl-before.conf

value_of() { sysctl -n "$1" 2>/dev/null | tr -s '\t ' ' '; }

# The previous value of each existing setting, so that it can be restored.
old=
differs=
while read -r name equals wanted; do
    [ "$equals" = = ] || continue
    value=$(value_of "${name#-}")
    case $name,$value in
    -*,) echo "absent=${name#-}" ;;
    *,) echo "lacks=$name" && exit 1 ;;
    *)
        old="$old${name#-} = $value
"
        [ "$value" = "$wanted" ] || differs=yes
        ;;
    esac
done <<CONF
$conf
CONF

[ -f "$before" ] || printf '%s' "$old" >"$before" || exit 1
if [ "$conf" != "$(cat "$sysctl_file" 2>/dev/null)" ]; then
    printf '%s\n' "$conf" >"$sysctl_file" && echo changed || exit 1
fi
if [ "$differs" ]; then
    sysctl --quiet --ignore --load "$sysctl_file" && echo changed || exit 1
fi

# A limit that the kernel rejects would lock out all users, since PAM then ends the login. So the file
# is written only if it is needed, and after root has tried the limit.
if [ "$descriptors" != unlimited ] && [ "$descriptors" -lt "$descriptors_wanted" ] &&
    prlimit --nofile="$descriptors_wanted" true 2>/dev/null; then
    limits="# Made by ZeroHTTPd Seven: each connection is an open file, and a proxy has two for each.
$user hard nofile $descriptors_wanted"
    if [ "$limits" != "$(cat "$limits_file" 2>/dev/null)" ]; then
        printf '%s\n' "$limits" >"$limits_file" && echo changed || exit 1
    fi
fi

# SPDX-License-Identifier: MIT
# Sets the kernel's settings for the benchmark, and the limit of open files. Must run as root. Prints
# `changed` for each change, `absent=NAME` if this kernel lacks an optional setting, and `lacks=NAME`
# if it lacks a required setting. The playbook sets these variables: `folder`; `sysctl_file`; `conf`,
# the text for sysctl_file; `limits_file`; `user`, the user who logs in; `descriptors`, this user's
# present limit of open files; `descriptors_wanted`, the limit that is needed.
# shellcheck shell=sh disable=SC2154
PATH=$PATH:/usr/sbin:/sbin
umask 022
before=$folder/.deploy/sysctl-before.conf

value_of() { sysctl -n "$1" 2>/dev/null | tr -s '\t ' ' '; }

# Store the previous value of each setting, so that it can be restored.
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

# If the kernel rejected the limit, PAM would end each login of the user. So the file is written only
# if the user needs a higher limit, and after root has tried the new limit.
if [ "$descriptors" != unlimited ] && [ "$descriptors" -lt "$descriptors_wanted" ] &&
    prlimit --nofile="$descriptors_wanted" true 2>/dev/null; then
    limits="# Made by ZeroHTTPd Seven: each connection is an open file, and a proxy has two for each client.
$user hard nofile $descriptors_wanted"
    if [ "$limits" != "$(cat "$limits_file" 2>/dev/null)" ]; then
        printf '%s\n' "$limits" >"$limits_file" && echo changed || exit 1
    fi
fi

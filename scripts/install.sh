#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Install Debian packages: the part of scripts/setup.sh that runs as root.
#
#     scripts/install.sh PACKAGE...
#
# Services of these packages start neither now nor at the next boot.
set -euo pipefail

readonly policy=/usr/sbin/policy-rc.d

say() { printf 'setup: %s\n' "$*" >&2; }

# Forbid each start of a service during the installation: policy-rc.d returns 101. After the end of
# this process, the file allows every start.
forbid_services() {
    [[ -e $policy || -L $policy ]] && return
    trap 'rm -f "$policy"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    printf '#!/bin/sh\n# Put here by %s for as long as process %s runs.\n%s\nexit 0\n' \
        "${BASH_SOURCE[0]}" "$$" "kill -0 $$ 2>/dev/null && exit 101" >"$policy"
    chmod 755 "$policy"
}

# Remove a policy-rc.d that a killed setup has left.
forget_old_policy() {
    local owner
    owner=$(sed -n 's/^# Put here by .*\.sh for as long as process \([0-9]*\) runs\.$/\1/p' \
        "$policy" 2>/dev/null) || return 0
    if [[ -n $owner && ! -d /proc/$owner ]]; then rm -f "$policy"; fi
}

installed_packages() {
    dpkg-query --show --showformat '${db:Status-Abbrev}${binary:Package}\n' |
        sed -n 's/^ii *//p' | sort
}

# Disable the services of new packages, so that they do not start at the next boot either.
disable_services_of() {
    local file files
    files=$(dpkg-query --listfiles "$@")
    while read -r file; do
        case $file in
        *@.*) ;; # a pattern for units, not a unit
        /lib/systemd/system/*.* | /usr/lib/systemd/system/*.*) disable_unit "${file##*/}" ;;
        /etc/init.d/*) update-rc.d "${file##*/}" disable ;;
        esac || say "could not disable ${file##*/}: disable it yourself"
    done <<<"$files"
}

disable_unit() {
    if command -v systemctl >/dev/null; then
        [[ $(systemctl is-enabled "$1" 2>/dev/null) != enabled ]] || systemctl disable "$1"
    else
        DPKG_MAINTSCRIPT_PACKAGE=zerohttpd deb-systemd-helper disable "$1"
    fi >/dev/null 2>&1
}

apt_get() {
    # NEEDRESTART_SUSPEND: needrestart, if it is installed, must not restart the user's services.
    DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C \
        apt-get --quiet=2 --yes --no-install-recommends \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

# Install packages. Print the size of the download and, on a terminal, the progress.
install_and_count() { # FILE PACKAGE...: write the whole output of apt-get into FILE
    local said=$1 watched=
    shift
    apt_get --quiet=1 --assume-no install "$@" 2>/dev/null |
        sed -n 's/^Need to get \(.*\) of archives.*/setup: to download: \1/p' >&2 || true
    [[ -t 2 ]] && watched=yes
    apt_get --quiet=1 install "$@" 2>&1 | tee "$said" | awk -v watched="$watched" '
        !watched { next }
        /^Get:/ { got++ }
        /^Unpacking / { unpacked++ }
        /^Setting up / { ready++ }
        { printf "\rsetup: packages downloaded %d, unpacked %d, set up %d ", got, unpacked, ready }
        END { if (NR) print "" }' >&2
}

install_as_root() {
    local before new said
    forget_old_policy
    forbid_services
    before=$(installed_packages)
    said=$(mktemp)
    # If the installation fails, fetch the package lists and try again. The lists may be missing (on a
    # fresh machine) or too old (with versions that the archive no longer has).
    if ! install_and_count "$said" "$@"; then
        say "fetching the lists of packages"
        apt_get update >&2 # with --quiet=2 it prints only warnings and errors
        install_and_count "$said" "$@" || {
            cat "$said" >&2
            rm -f "$said"
            exit 1
        }
    fi
    rm -f "$said"
    mapfile -t new < <(comm -13 <(printf '%s\n' "$before") <(installed_packages))
    if ((${#new[@]})); then disable_services_of "${new[@]}"; fi
}

install_as_root "$@"

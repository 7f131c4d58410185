# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Most scripts read this file first. It unsets the variables that scripts/foreign-variables lists and
# all exported functions, and sets HOME if HOME is missing.
unset CDPATH
project=$(\builtin cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
while read -r name; do
    # shellcheck disable=SC2163 # unset the function whose name is in `name`
    unset -f "$name"
done < <(compgen -A function)
while read -r pattern; do
    [[ $pattern == [A-Z]* ]] || continue
    while read -r name; do
        # shellcheck disable=SC2053 # $pattern is a pattern
        [[ $name == $pattern ]] || continue
        # BASHOPTS and SHELLOPTS are read-only, so they cannot be unset.
        case $name in
        BASHOPTS | SHELLOPTS) export -n "${name?}" ;;
        *) unset "$name" ;;
        esac
    done < <(compgen -e)
done <"$project/scripts/foreign-variables"
unset name pattern
# If HOME is not set, as in some services and containers, bash expands ~ from the list of users.
[[ -n ${HOME-} ]] || { unset HOME && export HOME=~; }

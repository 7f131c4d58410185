#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Install the missing tools of one or more groups:
#
#     scripts/setup.sh GROUP...      build  bench  read  openloop  hosts  test  sanitize  fuzz
#                                    lint  site  compare  peers  trace  fault  similar  package:NAME
#
# If nothing is missing, the script prints nothing. Otherwise it prints the missing Debian packages
# with reasons, and installs them with apt-get, through sudo for a user without root rights. Services
# of these packages start neither now nor at the next boot. Python packages are installed into .venv,
# with the versions and hashes in requirements/. The variable CC may name the compiler. Debian has no
# package of oha, the tool of the open loop, so Rust's cargo compiles it into build/tools. If a step
# fails, the script prints the reason and exits; a missing browser is reported, but is no failure.
set -euo pipefail
# shellcheck source=scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
cd "$project"

readonly venv=.venv
readonly groups="build bench read openloop hosts test sanitize fuzz lint site compare peers trace fault similar package:NAME"
readonly oldest_python=3.10
readonly oha_version=1.16.0 # this script compiles it; an installed oha must be 1.4 or newer

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# ---- Missing programs and packages ----

have() { command -v "$1" >/dev/null || [[ -x /usr/sbin/$1 ]]; }

# True if this package is installed, or a package that provides it: php8.2-opcache for php-opcache.
installed() {
    [[ $(dpkg-query -Wf '${db:Status-Abbrev}' "$1" 2>/dev/null) == ii* ]] ||
        dpkg-query -Wf '${db:Status-Abbrev} ,${Provides},\n' 2>/dev/null |
        grep "^ii.*[, ]$1[, ]" > /dev/null # not grep -q: its early end would be an error here
}

have_header() {
    [[ -e /usr/include/$1 || -e /usr/local/include/$1 ]] ||
        echo "#include <$1>" | "${compiler[@]}" -E -xc - >/dev/null 2>&1
}

read -ra compiler <<<"${CC:-gcc}" # CC may have arguments: "ccache gcc"

# True if the compiler can link a program with -fsanitize=KIND.
have_sanitizer() { # KIND COMPILER...
    local kind=$1 program=$'int main(void) { return 0; }'
    shift
    # The library of the fuzzer has the function main.
    [[ $kind != fuzzer ]] || program='int LLVMFuzzerTestOneInput(void) { return 0; }'
    "$@" -fsanitize="$kind" -xc - -o /dev/null <<<"$program" 2>/dev/null
}

# Print the package with the libraries of clang's sanitizers and fuzzer. Debian 12, Ubuntu 24.04 and
# newer releases have a separate package.
clang_runtime() {
    local version
    version=$(clang -dumpversion | cut -d. -f1)
    if apt-cache show "libclang-rt-$version-dev" >/dev/null 2>&1; then
        echo "libclang-rt-$version-dev"
    else
        echo "libclang-common-$version-dev"
    fi
}

missing=()
reasons=()
need() { # PACKAGE REASON COMMAND...: the package is missing if the command fails
    local package=$1 reason=$2
    shift 2
    "$@" && return
    [[ " ${missing[*]} " != *" $package "* ]] || return 0
    missing+=("$package")
    reasons+=("$package ($reason)")
}

python_is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < tuple(map(int, sys.argv[1].split("."))))' \
        "$oldest_python" 2>/dev/null
}

# Without package lists the result is true, because make_venv checks the installed version later.
archive_python_is_new_enough() {
    local version
    version=$(apt-cache show python3 2>/dev/null | sed -n 's/^Version: \([0-9.]*\).*/\1/p' | tail -n 1)
    [[ -z $version || $(printf '%s\n' "$oldest_python" "$version" | sort -V | head -n 1) == "$oldest_python" ]]
}

can_make_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

# Set `python` to the interpreter for .venv; if its package is missing, add the package to `missing`.
# Prefer the system's Python: python3-venv is for this version, and others may be removed later.
python=
find_python() {
    local candidate version
    for candidate in /usr/bin/python3 python3 python3.{14..10}; do
        if have "$candidate" && python_is_new_enough "$candidate" && can_make_venv "$candidate"; then
            python=$candidate
            return
        fi
    done
    if python_is_new_enough /usr/bin/python3 ||
        { [[ ! -x /usr/bin/python3 ]] && archive_python_is_new_enough; }; then
        need python3-venv "for the project's own Python packages" false
        python=/usr/bin/python3
        return
    fi
    # An older release of the distribution may have a second, newer Python.
    for version in 3.{14..10}; do
        if apt-cache show "python$version-venv" >/dev/null 2>&1; then
            need "python$version-venv" "Python $oldest_python or newer" false
            python=/usr/bin/python$version
            return
        fi
    done
    refuse_python
}

refuse_python() {
    local found
    found=$(/usr/bin/python3 --version 2>/dev/null || echo "no Python")
    die "Python $oldest_python or newer is needed, and this is $(name_of_system) with $found. Take" \
        "Debian 12, Ubuntu 22.04 or newer; or install a newer Python, with its venv module, so that" \
        "python3 or python$oldest_python starts it."
}

name_of_system() { sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2>/dev/null || uname -sr; }

# True if .venv is complete, and its Python still exists and is new enough.
venv_is_sound() { [[ -e $venv/.complete ]] && python_is_new_enough "$venv/bin/python"; }

requirements=()
need_python() { # FILE...: a pinned list in requirements/
    local name
    for name in "$@"; do
        [[ " ${requirements[*]} " == *" $name "* ]] || requirements+=("$name")
    done
    if [[ -z $python ]] && ! venv_is_sound; then find_python; fi
}

on_ubuntu() { grep -qs '^ID=ubuntu' /etc/os-release; }

# On Ubuntu, the package chromium only installs a snap, which needs a daemon and cannot access /tmp.
# So the tests there use the browser that playwright downloads.
chromium_from_playwright() { on_ubuntu && ! have google-chrome; }
without_browser= # the reason why there is no browser
have_chromium() {
    [[ -n $without_browser ]] || have chromium || have google-chrome || chromium_from_playwright ||
        { ! on_ubuntu && have chromium-browser; }
}

have_playwright_chromium() {
    compgen -G "${PLAYWRIGHT_BROWSERS_PATH:-$HOME/.cache/ms-playwright}/chromium*/*/*" >/dev/null
}

# Any compiler can be used. The Makefile's default is gcc.
need_compiler() {
    case ${compiler[0]} in
    gcc | clang) need "${compiler[0]}" "compiles the servers" have "${compiler[0]}" ;;
    *) have "${compiler[0]}" || die "CC=${CC-}: there is no ${compiler[0]}" ;;
    esac
}

# Debian packages, each with a command that succeeds if the package is installed, and its purpose.
readonly tools="\
gcc              have gcc                compiles C
make             have make               builds the servers
libc6-dev        have_header stdio.h     headers of the C library
uthash-dev       have_header uthash.h    hash tables in C
libcmocka-dev    have_header cmocka.h    unit tests in C
liburing-dev     have_header liburing.h  the server io_uring
musl-tools       have musl-gcc           another C library, Alpine's
clang            have clang              a second compiler, with a fuzzer
clang-tidy       have clang-tidy         checks C for mistakes
shellcheck       have shellcheck         checks shell scripts
golang-go        have go                 compiles the Go server to compare with
redis-server     have redis-server       the data of the guestbook
apache2-utils    have ab                 ab, a load generator
wrk              have wrk                a load generator that speaks HTTP/1.1
nginx-light      have nginx              the load balancer of the benchmark
util-linux       have setpriv            ends child processes with their parent
util-linux-extra have pivot_root         pivot_root, for the root folder of each lab host
iproute2         have ip                 networks of the lab
openssh-client   have ssh                reaches the other hosts
openssh-server   have sshd               the SSH server of the lab's hosts
git              have git                knows which files are the project's
patch            have patch              changes copies of the sources
curl             have curl               a client of the tests
strace           have strace             sees the system calls
binutils         have addr2line          finds the source line of an address
chromium         have_chromium -         the browser of the tests"

look_for_group() {
    local wanted=() lists=() package command argument reason
    case $1 in
    build) need_compiler; wanted=(make libc6-dev uthash-dev) ;;
    read) lists=(bench) ;; # reads results and runs no server
    bench) wanted=(redis-server apache2-utils util-linux nginx-light); lists=(bench) ;;
    openloop) wanted=(gcc libc6-dev) ;; # see install_oha
    hosts) wanted=(git openssh-client openssh-server iproute2 util-linux-extra); lists=(hosts) ;;
    test)
        wanted=(libcmocka-dev liburing-dev libc6-dev musl-tools patch git curl strace redis-server
            apache2-utils chromium)
        lists=(bench test site)
        ;;
    sanitize) # the package's name depends on the compiler: see look_again
        case ${compiler[*]} in
        *clang*) have clang && need "$(clang_runtime)" "the sanitizers' libraries" \
            have_sanitizer address "${compiler[@]}" ;;
        *) have gcc && need "libgcc-$(gcc -dumpversion | cut -d. -f1)-dev" "the sanitizers' libraries" \
            have_sanitizer address "${compiler[@]}" ;;
        esac || true
        ;;
    fuzz)
        wanted=(clang)
        if have clang; then need "$(clang_runtime)" "the fuzzer" have_sanitizer fuzzer clang; fi
        ;;
    lint) wanted=(git clang clang-tidy shellcheck libcmocka-dev liburing-dev); lists=(bench lint site) ;;
    site) lists=(bench site) ;;
    trace) wanted=(strace binutils) ;;
    fault) wanted=(patch git) ;;
    similar) lists=(bench similar) ;; # compares the submissions of a class
    compare) wanted=(golang-go) ;;
    peers) wanted=(wrk) ;;
    package:*) need "${1#package:}" "a reference server" installed "${1#package:}" ;;
    *) die "unknown group '$1'. Groups: $groups" ;;
    esac
    while read -r package command argument reason; do
        [[ " ${wanted[*]} " != *" $package "* ]] || need "$package" "$reason" "$command" "$argument"
    done <<<"$tools"
    ((${#lists[@]} == 0)) || need_python "${lists[@]}"
}

# ---- Installation ----

explain_and_stop() { # REASON
    say "$1. Install these, then try again:"
    printf '    %s\n' "${reasons[@]}" >&2
    say "On Debian and Ubuntu, as root:  apt-get install --no-install-recommends ${missing[*]}"
    exit 1
}

install_packages() {
    local as_root=() list cannot='' others
    mapfile -t others < <(printf '%s\n' "${missing[@]}" | grep -vx chromium)
    if ((EUID != 0)); then
        have sudo || cannot="neither root nor sudo here"
        as_root=(sudo)
        # Without a terminal, the user cannot type a password.
        [[ -t 0 ]] || as_root=(sudo -n)
    fi
    have apt-get || cannot="this system has no apt-get"
    if [[ -n $cannot ]]; then
        ((${#others[@]} == 0)) || explain_and_stop "$cannot"
        do_without_browser "$cannot"
        return
    fi
    list=$(printf ', %s' "${reasons[@]}")
    say "installing${as_root[0]:+ with sudo} what is missing: ${list#, }; this takes a while"
    if "${as_root[@]}" bash scripts/install.sh "${missing[@]}"; then return; fi
    if ((${#others[@]} < ${#missing[@]})) &&
        { ((${#others[@]} == 0)) || "${as_root[@]}" bash scripts/install.sh "${others[@]}"; }; then
        do_without_browser "the package chromium could not be installed"
        return
    fi
    explain_and_stop "the installation did not succeed"
}

# A browser is optional. Without a browser, some tests are skipped with a message.
do_without_browser() { # REASON
    without_browser=$1
    say "no browser: $1. The tests that need a browser will be skipped."
}

make_venv() {
    if venv_is_sound; then return; fi
    [[ -n $python ]] || find_python
    # The installed Python may be too old, if the archive has no newer version.
    python_is_new_enough "$python" || refuse_python
    say "making $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv" || die "could not make $venv with $python; see above"
    touch "$venv/.complete"
}

stamp_of() { printf '%s/.installed-%s' "$venv" "$1"; }
digest_of() { sha256sum <"requirements/$1.txt"; }

install_requirements() {
    local name stale=() files=()
    for name in "${requirements[@]}"; do
        [[ -e requirements/$name.txt ]] || die "requirements/$name.txt is missing"
        if [[ $(digest_of "$name") != "$(cat "$(stamp_of "$name")" 2>/dev/null)" ]]; then
            stale+=("$name")
            files+=(--requirement "requirements/$name.txt")
        fi
    done
    if ((${#stale[@]} == 0)); then return; fi
    say "installing Python packages into $venv: requirements/ ${stale[*]}"
    run_pip "${files[@]}"
    for name in "${stale[@]}"; do digest_of "$name" >"$(stamp_of "$name")"; done
}

# Run pip install. Print the progress on a terminal; if pip fails, print the reason and exit.
run_pip() { # --requirement FILE...
    local said=$venv/pip.log status=0 watched=
    [[ -t 2 ]] && watched=yes
    # These options override the user's pip.conf. With an empty --target, pip uses no target folder.
    "$venv/bin/python" -m pip install --no-user --target= --prefix="$PWD/$venv" --root=/ \
        --require-hashes --disable-pip-version-check --progress-bar off "$@" 2>&1 | tee "$said" | awk -v watched="$watched" '
            !watched { next }
            /^ *(Downloading|Using cached) / { got++ }
            /^Installing / { then = "; unpacking" }
            { printf "\rsetup: Python packages downloaded: %d%s ", got, then }
            END { if (NR) print "" }' >&2 || status=$?
    if ((status)); then
        grep -vE '^ *(Ignoring|Collecting|Downloading|Using cached|Installing|Obtaining) ' "$said" >&2 || true
        explain_pip "$(<"$said")"
    fi
}

explain_pip() { # OUTPUT OF PIP
    local which
    which="$("$venv/bin/python" --version) on $(name_of_system), $(uname -m)"
    case $1 in
    *"DO NOT MATCH THE HASHES"*)
        die "a downloaded package differs from the pinned package (requirements/): the download was" \
            "cut, or the package index cannot be trusted. See pip's message above." ;;
    *CERTIFICATE_VERIFY_FAILED*)
        die "pip does not trust the certificate of its package index; see its message above. If" \
            "the network has a certificate of its own, set PIP_CERT to its file." ;;
    *NewConnectionError* | *"name resolution"* | *"timed out"* | *ProxyError* | *SSLError* | *ConnectTimeout*)
        die "pip could not reach its package index; see its message above. This" \
            "step needs the network; try again when it is back." ;;
    *"No space left"*) die "there is no space left for the Python packages (about 300 MB)." ;;
    *"different python version"* | *"No matching distribution"*)
        die "there are no such packages for $which; see pip's message above." ;;
    *) die "pip could not install the packages with $which; see its message above." ;;
    esac
}

# Install in editable mode: Python reads bench/ and lab/ in place. A .venv that was copied or linked
# from another checkout would run that checkout's code, so the project is installed again.
install_project() {
    if [[ $(cat pyproject.toml scripts/zerohttpd | sha256sum) == "$(cat "$(stamp_of project)" 2>/dev/null)" &&
        $(installed_from) -ef bench/__init__.py ]]; then return; fi
    mkdir -p build
    PIP_CONFIG_FILE=/dev/null "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --no-index --no-deps --no-build-isolation --editable . >&2 || die "pip could not install the command zerohttpd; see above"
    cp scripts/zerohttpd "$venv/bin/zerohttpd"
    cat pyproject.toml scripts/zerohttpd | sha256sum >"$(stamp_of project)"
}

# Print the path of the installed bench. Python runs in /, because it prefers modules in its current
# folder.
installed_from() {
    local python=$PWD/$venv/bin/python
    (cd / && "$python" -c 'from importlib import util; print(util.find_spec("bench").origin)' 2>/dev/null)
}

install_browser() {
    if ! chromium_from_playwright || have_playwright_chromium; then return; fi
    say "downloading Chromium with playwright: the browser of the tests (about 300 MB)"
    "$venv/bin/python" -m playwright install --with-deps chromium >&2 ||
        say "playwright could not download Chromium; see its message above. The tests that need" \
            "a browser will be skipped. An installed google-chrome can be used, too."
}

have_oha() { have oha || [[ -x build/tools/bin/oha || -x $HOME/.cargo/bin/oha ]]; }

# oha needs a newer Rust than most distributions have, so this script does not install cargo.
install_oha() {
    local cargo quiet=()
    if have_oha; then return; fi
    cargo=$(command -v cargo || echo "$HOME/.cargo/bin/cargo")
    if [[ ! -x $cargo ]]; then
        say "the open loop needs oha. cargo compiles oha, but cargo is not installed." \
            "Install Rust (this needs no root):"
        printf '    %s\n' "curl --proto '=https' -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal" \
            "scripts/setup.sh openloop" >&2
        say "Or download oha into a folder of your PATH: https://github.com/hatoo/oha/releases"
        exit 1
    fi
    say "compiling oha $oha_version, the tool of the open loop, with $("$cargo" --version) into" \
        "build/tools; this takes some minutes, once"
    exec 8<scripts/setup.sh # a lock: two setups at the same time would compile oha twice
    flock 8
    [[ -t 2 ]] || quiet=(--quiet) # without a terminal, no progress
    if ! have_oha; then
        "$cargo" install oha --version "$oha_version" --locked "${quiet[@]}" --root build/tools \
            --target-dir build/tools/target >&2 ||
            die "cargo could not compile oha; see its message above. It needs the network, and a" \
                "Rust that is new enough: rustup update"
        rm -rf build/tools/target
    fi
    exec 8<&-
}

# Look for further packages, whose names contain the version of a compiler that was missing before.
look_again() { # GROUP...
    local group first=" ${missing[*]} " package
    missing=() reasons=() requirements=() python=
    for group in "$@"; do look_for_group "$group"; done
    for package in "${missing[@]}"; do
        [[ $first != *" $package "* ]] || explain_and_stop "$package is installed, but its check still fails"
    done
    if ((${#missing[@]})); then install_packages; fi
}

main() {
    local group
    (($#)) || die "name a group: $groups"
    for group in "$@"; do look_for_group "$group"; done
    if ((${#missing[@]})); then
        install_packages
        look_again "$@"
    fi
    if ((${#requirements[@]})); then
        exec 9<scripts/setup.sh # a lock: two setups at the same time (make -j) would damage .venv
        flock 9
        make_venv
        install_requirements
        install_project
        exec 9<&-
    fi
    case " $* " in *" openloop "*) install_oha ;; esac
    case " $* " in *" test "*) install_browser ;; esac
}

main "$@"

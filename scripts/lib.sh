# Functions shared by the scripts beside this file: paths, and a virtual environment that is created when it is missing.
# shellcheck shell=bash
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="${TEIA_VENV:-$root/.venv}"

say() { printf '%s\n' "$*" >&2; }
die() { say "teia: $*"; exit 1; }

# without_hosts: print the errors of programs without the addresses they fetch from, which may be private.
without_hosts() { sed -E "s#[a-z]+://[^ ]*#(address)#g; s#host='[^']*'#host#g; s#(Looking in indexes|Looking in links):.*#\1#" >&2; }

# find_python: print the first Python that can make an environment and compile; else the first that is new enough. The
# system's own comes first: distributions build it with profiles and link-time optimisation, which is some 15% faster.
find_python() {
    local candidate check able new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
    able='import ensurepip, os, sys, sysconfig, venv
sys.exit(sys.version_info < (3, 11) or not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
    for check in "$able" "$new_enough"; do
        for candidate in ${TEIA_PYTHON:-/usr/bin/python3 python3.13 python3.12 python3.11 python3}; do
            if "$candidate" -c "$check" 2>/dev/null; then
                printf '%s\n' "$candidate"
                return
            fi
        done
    done
    die "${TEIA_PYTHON:-Python} is not 3.11 or newer; install it, or name it in TEIA_PYTHON"
}

# made_from: print all files that an environment depends on.
made_from() {
    cat "$root/pyproject.toml" "$root/setup.py" "$root/scripts/constraints.txt"
    find "$root/teia" '(' -name '*.pyx' -o -name '*.pxi' ')' -print0 | LC_ALL=C sort -z | xargs -0 cat
}

# make_environment EXTRAS: make .venv with teia and these extras; install again when a file of made_from has changed.
make_environment() {
    local extras="$1" python stamp wanted
    stamp="$venv/.made-for-$extras"
    wanted="$(made_from | sha256sum | cut -d' ' -f1)"
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        return
    fi
    [ "$(uname -s)" = Linux ] || die "teia runs on Linux only"
    python="$(find_python)"
    command -v cc >/dev/null && [ -e "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] ||
        die "teia has compiled parts; install a C compiler and Python's headers (on Debian: apt-get install gcc python3-dev)"
    say "teia: preparing $venv (once; about a minute)"
    if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        "$python" -m venv --clear "$venv" ||
            die "could not make a virtual environment; on Debian: apt-get install python3-venv"
    fi
    # As variables the constraints also apply to the packages needed to build. `compat` is a plain path; the other kind
    # of editable install runs a finder of 30 ms whenever a process starts, and a crawl starts several.
    PIP_CONSTRAINT="$root/scripts/constraints.txt" PIP_BUILD_CONSTRAINT="$root/scripts/constraints.txt" \
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --config-settings editable_mode=compat --editable "$root[$extras]" 2>&1 | without_hosts ||
        die "could not install the Python packages; the lines above say why"
    printf '%s' "$wanted" >"$stamp"
}

# apt_get ARGS...: run apt-get, and wait up to ten minutes for another apt-get instead of failing. Its own option waits
# for dpkg's lock alone, not for that of the package lists.
apt_patience_s=600
apt_get() {
    local complaints waited_s=0
    until complaints="$(LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=$apt_patience_s -qq "$@" 2>&1 >/dev/null)"; do
        if [ "$waited_s" -ge "$apt_patience_s" ] || ! grep -qiE 'could not get lock|unable to (lock|acquire)|is held by' <<<"$complaints"; then
            without_hosts <<<"$complaints"
            return 1
        fi
        [ "$waited_s" -gt 0 ] || say "teia: waiting for another apt-get to end"
        sleep 5
        waited_s=$((waited_s + 5))
    done
}

# need_debian PROGRAM=PACKAGE...: install the packages whose program is missing, or print the command that does.
need_debian() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null 2>&1 || [ -e "${pair%%=*}" ] || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "teia: installing ${missing[*]}"
        apt_get update || say "teia: apt-get update failed; trying to install all the same"
        apt_get install -y --no-install-recommends "${missing[@]}" ||
            die "could not install ${missing[*]}"
    else
        say "teia: some tests need programs that are not here; install them with: apt-get install ${missing[*]}"
    fi
}

#!/usr/bin/env bash
# Make the virtual environment of the project and install the pinned requirements into it.
set -euo pipefail
venv="$1"
say() { printf '%s\n' "$*" >&2; }

find_python() {
    local candidate
    for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11 python3 python; do
        command -v "$candidate" >/dev/null 2>&1 || continue
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$candidate"; return 0; }
    done
    return 1
}

if ! python=$(find_python); then
    say "Python 3.11 or newer is needed and none was found."
    command -v python3 >/dev/null 2>&1 && say "The python3 on this machine is $(python3 --version 2>&1)."
    say "Install one, or name it: make book PYTHON=/path/to/python3.11"
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    say "$python ($("$python" --version 2>&1)) cannot make virtual environments: its venv module is incomplete."
    say "On Debian or Ubuntu: sudo apt-get install python3-venv    Elsewhere, name another one: make book PYTHON=..."
    exit 1
fi
say "Making $venv with $("$python" --version 2>&1) and installing the pinned requirements (a few minutes, once) ..."
"$python" -m venv --clear "$venv"
if ! "$venv/bin/python" -m pip install -q --disable-pip-version-check -r requirements.txt; then
    say "The installation failed; the message of pip is above. Is there a network connection?"
    exit 1
fi

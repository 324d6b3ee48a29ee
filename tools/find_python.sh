#!/bin/sh
# Print an interpreter of the version that is asked for, "3.13" for example. Fails when there is none.
#
# Each candidate is run: pyenv puts a `python3.13` on the path that may start nothing.
set -eu

for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
    found=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2], sys.executable)' \
        2>/dev/null) || continue
    if [ "${found%% *}" = "$1" ]; then
        echo "${found#* }"
        exit 0
    fi
done
exit 1

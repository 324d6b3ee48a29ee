"""Run a command without the capabilities that let root read and write everything.

python drop_rights.py COMMAND [ARGUMENT]...
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE = 1
_CAP_DAC_READ_SEARCH = 2
_CAP_FOWNER = 3


def main() -> None:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH, _CAP_FOWNER):
        if prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            sys.exit(f"cannot drop capability {capability}: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - the bounding set takes effect here


main()

"""For a command that runs at another time: Python loads this first, where PYTHONPATH names its
folder. TEST_CLOCK_AHEAD has the seconds between that time and the real one."""

from __future__ import annotations

import os
import time

_real = time.time
time.time = lambda: _real() + float(os.environ.get("TEST_CLOCK_AHEAD", "0"))

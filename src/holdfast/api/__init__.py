"""Everything Holdfast does, as methods.

`holdfast.open` gives a `Home`; the command, and whatever else shows a home to people, asks here and
only shows the answer. Each module can be imported alone: a program that only takes checkpoints
loads `capture`, and no session store.

| module | holds |
|---|---|
| `home` | `Home` and `open`, which is `holdfast.open` |
| `machine` | `Machine` and `machine`, which is `holdfast.machine`: all homes as one |
| `plan` | `HomePlan` and `HomeReport`: shown, applied, undone |
| `sessions` | `AgentSessions`, and `open_sessions` for an agent that needs nothing else |
| `checkpoints`, `capture` | `Checkpoints`; the part of it that takes them |
| `archive` | `ArchivedSessions`, `Trash` and `Log`: what left the store |
| `background` | `maintain_in_background`, next to an event loop |
| `guardian` | `watch`: all homes looked after by one process |
| `metrics` | `MetricsSource`: all homes in numbers, by agent, without a scan |
| `arguments` | ages, sizes and ids as callers write them |
| `place` | `Place`: where a home is, its settings, the clock |
"""

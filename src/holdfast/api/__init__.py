"""Everything Holdfast does, as methods.

`holdfast.open` returns a `Home`. The command line and the other front ends call it and display the
result. Each module can be imported alone: a program that only takes checkpoints
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
| `arguments` | checks ages, sizes and ids, and turns them into values |
| `place` | `Place`: where a home is, its settings, the clock |
"""

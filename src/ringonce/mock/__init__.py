"""Mock providers: one HTTP server per channel that fails on command and remembers what it was asked to do.

| module | its noun |
|---|---|
| `faults` | the knobs, as one validated value |
| `steering` | what a message says about its own answer |
| `decision` | delivery, knobs, memory and chance in, a plan out; pure |
| `script` | a plan as bytes, pauses and cuts; pure |
| `memory` | acts, duplicates and counts, bounded |
| `provider` | one provider's state: its knobs, its memory, its luck |
| `protocol` | HTTP/1.1 on the bare socket |
| `control` | health, stats, acts, chaos and reset |
| `server` | one provider in a running event loop |
| `thread` | the same in a thread of its own, for tests |
| `commands` | `ringonce mock` |
"""

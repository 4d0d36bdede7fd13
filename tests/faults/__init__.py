"""A Kubernetes API that misbehaves on demand, and time that costs nothing.

`hub` is what a well-behaved server knows, `scripted` serves it in memory with faults by script, `sockets` serves bytes
by script over real sockets. `virtual` runs coroutines under virtual time.
"""

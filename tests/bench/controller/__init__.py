"""The scheduler as a process on a hub: how fast it places, what it costs, and how fast the hub takes writes at all.

The rest of the bench measures parts of one process. Here are four: the hub, the scheduler, a plain client that writes
the same without deciding anything, and the driver, which creates the objects and looks at the clock.
"""

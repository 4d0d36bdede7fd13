"""The embedded hub: a Kubernetes API server for one machine. It knows Kubernetes, not placement.

It serves what kubectl, Fleet's controllers and Fleet's users need of a hub, from one process and one SQLite file, so
that a laptop needs no cluster. It schedules nothing and runs nothing: docs/embedded-hub.md lists what it leaves out.
"""

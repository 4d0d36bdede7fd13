"""The embedded hub: a Kubernetes API server for one machine. It implements Kubernetes, not placement.

It serves what kubectl, Fleet's controllers and Fleet's users need of a hub cluster, from one process and one SQLite
file, so that a laptop needs no cluster. It schedules no pods and runs no workloads. README.md describes the packages,
docs/embedded-hub.md what is and is not supported.
"""

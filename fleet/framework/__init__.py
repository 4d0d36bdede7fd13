"""The scheduling framework: extension points, profiles, and the pure function `decide`.

Knows columns and plugins' contracts; knows no plugin by name, and nothing of Kubernetes clients, queues or time.
"""

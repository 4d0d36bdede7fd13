"""The scheduling framework: the modules a plugin author imports, and the engine in `profiles`, `cycle` and `runtime`.

It depends on columns and on the extension points, on no plugin by name, and not on Kubernetes clients, queues or time.
"""

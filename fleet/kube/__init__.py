"""A Kubernetes client that a controller can trust for years: requests, watches, caches, queues and leases.

Knows Kubernetes and nothing about placement. The modules import one another only downwards: `lease`, `patch` and
`reflector` speak through the `api` protocol, which `transport` implements over HTTP.
"""

"""One suite for two hubs: what holds for the real API server holds for the embedded hub.

The wordings in these tests are the real server's. `make conformance TARGET=real|embedded` runs one of them, `make test`
both. Where the embedded hub differs on purpose, `differences.py` says so, and why.

Tests share one hub: each keeps to a namespace of its own, or to names nobody else uses.
"""

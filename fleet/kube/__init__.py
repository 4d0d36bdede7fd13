"""Kubernetes client for long-running controllers: requests, informers, work queues, events and leader election.

`client` implements the protocol of `api` over HTTP; everything else uses only the protocol.
"""

"""The scheduler's configuration document, `FleetSchedulerConfiguration`: profiles beside the settings.

A document is a settings file with an envelope and profiles. This package reads the envelope and the profiles, and
merges lists of plugins; which plugins there are and what they implement, only `fleet.scheduler` knows.
"""

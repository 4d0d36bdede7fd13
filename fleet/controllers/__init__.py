"""The controllers of the hub: what runs in `fleet controller` beside the scheduler, and the process around both."""

"""The one error tree.

    FleetError
    ├── InputError            something a person or another program wrote is wrong
    │   ├── QuantityError     a text is no quantity
    │   ├── TimestampError    a text is no RFC 3339 time
    │   └── DocumentError     a document does not describe the object it claims to be
    ├── ConfigurationError    profiles, plugins or settings do not fit together
    │   ├── DuplicatePlugin
    │   └── UnknownPlugin
    ├── PluginError           a plugin broke its contract (the attempt fails, the process goes on)
    ├── StaleInputs           a decision met objects that changed meanwhile (retriable)
    ├── PurityError           a decision hook reached for the outside world
    ├── SnapshotUseError      an effect hook reached for the frame that was decided on
    ├── StateNotFound         a cycle-state key that nobody wrote
    └── StateExpired          a cycle state used after its attempt ended

A plugin's refusal of a cluster is a value (`framework.status.Status`), never an exception.
"""

from __future__ import annotations

from typing import ClassVar


class FleetError(Exception):
    """Root of everything Fleet raises on purpose."""

    retriable: ClassVar[bool] = False


class InputError(FleetError):
    """Wrong input: names the field, the value and what is expected instead."""

    def __init__(self, message: str, *, field: str = "", value: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.value = value

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class QuantityError(InputError):
    pass


class TimestampError(InputError):
    pass


class DocumentError(InputError):
    pass


class ConfigurationError(FleetError):
    pass


class DuplicatePlugin(ConfigurationError):
    def __init__(self, name: str) -> None:
        super().__init__(f"a plugin named {name} already exists")


class UnknownPlugin(ConfigurationError):
    def __init__(self, name: str) -> None:
        super().__init__(f"no plugin named {name} exists")


class PluginError(FleetError):
    def __init__(self, message: str, *, plugin: str = "", hook: str = "") -> None:
        super().__init__(message)
        self.plugin = plugin
        self.hook = hook


class PurityError(FleetError):
    pass


class SnapshotUseError(FleetError):
    pass


class StateNotFound(FleetError, LookupError):
    pass


class StateExpired(FleetError):
    pass


class StaleInputs(FleetError):
    """The inputs of a decision do not fit together any more; reading them again helps."""

    retriable: ClassVar[bool] = True

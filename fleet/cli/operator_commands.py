"""Options of `fleet operator`."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from fleet.cli.parsing import RUN, CommandLine
from fleet.cli.process_options import Context, Kubeconfig, Settings

_RUN: Final = """
    fleet operator run --namespace fleet-secondary
    fleet operator run --namespace fleet-secondary --target local --state ~/.fleet/secondary
"""

_APPLY: Final = """
    fleet operator apply -f secondary.yaml --namespace fleet-secondary --target local --state ~/.fleet/secondary
"""

_MANIFESTS: Final = """
    fleet operator manifests --namespace fleet-secondary --image registry.example/fleet:v0.1.0 > operator.yaml
"""


_ADDRESSES: Final = ("health.address", "metrics.address")


def add_to(app: CommandLine) -> None:
    operator = CommandLine(name="operator", help="Run schedulers beside the first one.")
    operator.callback()(_require_command)
    operator.add(RUN, examples=_RUN)(run)
    operator.add(RUN, examples=_APPLY)(apply)
    operator.add(RUN, examples=_MANIFESTS)(manifests)
    app.add_typer(operator, name="operator", rich_help_panel=RUN)


def _require_command() -> None:
    pass


class TargetName(enum.StrEnum):
    KUBERNETES = "kubernetes"
    LOCAL = "local"


class ResourceGroup(enum.StrEnum):
    FLEET = "operator.fleet.dev"
    OPENSHIFT = "operator.openshift.io"


_Namespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the SecondaryScheduler.")
]
_Target = Annotated[
    TargetName, typer.Option("--target", help="Run schedulers in pods of the hub, or as processes of this machine.")
]
_State = Annotated[
    Path | None, typer.Option("--state", metavar="DIR", help="Directory of the local target: objects and processes.")
]
_Images = Annotated[
    list[str] | None,
    typer.Option(
        "--image",
        metavar="IMAGE=DIR",
        help="With --target local: the Python environment of an image (default: that of the operator); repeatable.",
    ),
]


def run(
    *,
    namespace: _Namespace,
    target: _Target = TargetName.KUBERNETES,
    state: _State = None,
    images: _Images = None,
    settings: Settings = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Run the operator on a hub. It keeps the scheduler of the SecondaryScheduler of one namespace as it should be.

    With --target local the scheduler is a process of this machine that ends with the operator.

    Exit codes: 0 stopped by a signal, 1 lease lost or failure, 2 wrong settings or usage.
    """
    _run(namespace, target, state, images or (), settings or (), kubeconfig, context)


def apply(
    *,
    files: Annotated[
        list[str],
        typer.Option("--filename", "-f", metavar="PATH", help="File or folder, or - for standard input; repeatable."),
    ],
    namespace: _Namespace,
    target: _Target = TargetName.LOCAL,
    state: _State = None,
    images: _Images = None,
    settings: Settings = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Apply files with a SecondaryScheduler and its ConfigMap to the hub, and run its operator.

    Exit codes: 0 stopped by a signal, 1 lease lost or failure, 2 wrong files, settings or usage.
    """
    from fleet.cli.client.hub_access import HubOptions
    from fleet.cli.commands.apply import ApplyOptions, run_apply

    _check_target(target, state, images or ())
    hub = HubOptions(kubeconfig=kubeconfig, context=context)
    code = run_apply(ApplyOptions(files=files, namespace=namespace, hub=hub))
    if code:
        raise typer.Exit(code)
    _run(namespace, target, state, images or (), settings or (), kubeconfig, context)


def _run(
    namespace: str,
    target: TargetName,
    state: Path | None,
    images: Sequence[str],
    settings: Sequence[str],
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    import os

    from fleet.cli.client.hub_access import HubOptions, find_kubeconfig
    from fleet.manager.hub_connection import has_pod_identity
    from fleet.operator.process import OperatorOptions, run_operator
    from fleet.settings import load_settings

    environments = _check_target(target, state, images)
    if state is not None and not has_pod_identity(os.environ):
        kubeconfig = find_kubeconfig(HubOptions(kubeconfig=kubeconfig))
    effective = load_settings(None, os.environ, settings)
    if state is not None:  # several may run on one machine
        quiet = [f"{name}=off" for name in _ADDRESSES if effective.origins[name] == "default"]
        effective = load_settings(None, os.environ, [*settings, *quiet])
    options = OperatorOptions(
        settings=effective.settings,
        namespace=namespace,
        kubeconfig=kubeconfig,
        context=context,
        state=None if state is None else state.expanduser().resolve(),
        environments=environments,
    )
    raise typer.Exit(run_operator(options))


def _check_target(target: TargetName, state: Path | None, images: Sequence[str]) -> dict[str, Path]:
    """Environments by image."""
    if target is TargetName.KUBERNETES:
        for option, value in (("--state", state), ("--image", images)):
            if value:
                raise typer.BadParameter("needs --target local", param_hint=option)
        return {}
    if state is None:
        raise typer.BadParameter("--target local keeps its objects there", param_hint="--state")
    return dict(map(_parse_image, images))


def _parse_image(text: str) -> tuple[str, Path]:
    image, _, folder = text.partition("=")
    environment = Path(folder).expanduser().absolute()
    if not (folder and (environment / "bin" / "python").exists()):
        raise typer.BadParameter(f"{text!r} names no Python environment: give IMAGE=DIR", param_hint="--image")
    return image, environment


def manifests(
    *,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of operator and SecondaryScheduler.")
    ],
    image: Annotated[str, typer.Option("--image", metavar="IMAGE", help="Image of the operator.")],
    group: Annotated[
        ResourceGroup, typer.Option("--group", help="API group of the definition of SecondaryScheduler.")
    ] = ResourceGroup.FLEET,
) -> None:
    """Print the objects that install the operator in a namespace: for `kubectl apply`, by an administrator.

    They include what the scheduler may do on the hub. The chart has the same with `operator.enabled`.
    """
    from fleet.operator.installation import build_manifests, format_manifests

    typer.echo(format_manifests(build_manifests(namespace, image, group=group.value)), nl=False)

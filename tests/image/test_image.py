"""The image as the Dockerfile says it is: everything in it that the roles need, nothing that changes at run time."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import ssl
import stat
import subprocess
import sysconfig
from collections.abc import Iterator
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Final

import httpx
import pip
import pytest

from fleet import __version__
from tests.control_plane.http_client import SECONDS_TO_ANSWER
from tests.e2e.hub import Hub, soon
from tests.e2e.world import World
from tests.image.building import Building
from tests.image.conftest import SECONDS_TO_BUILD, Image, built
from tests.image.dockerfile import FILE, ROOT, Copy, Run, context, filled, instructions, stages
from tests.image.pods import TREE, Machine, Running
from tests.image.room import Room, with_python
from tests.installed import build_example_wheel
from tests.postgres import Postgres

NOBODY: Final = 65532
UNCHECKED_HASH: Final = (1).to_bytes(4, "little")

pytestmark = pytest.mark.timeout(SECONDS_TO_BUILD)


# --- the file ---------------------------------------------------------------------------------------------------------


def test_nothing_that_is_copied_is_left_out_of_the_context() -> None:
    there = set(context())
    copied = [source for step in stages()["build"].steps if isinstance(step, Copy) for source in step.sources]

    assert all(any(path.is_relative_to(source) for path in there) for source in copied), copied


def test_nothing_is_in_the_context_that_is_not_copied() -> None:
    copied = [source for step in stages()["build"].steps if isinstance(step, Copy) for source in step.sources]
    beside = {path.parts[0] for path in context() if not any(path.is_relative_to(source) for source in copied)}

    assert beside <= {"requirements"}


def test_both_stages_begin_with_the_same_python_pinned_by_digest() -> None:
    build, image = stages().values()

    assert build.base == image.base
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", image.base)


def test_without_a_digest_the_tag_decides() -> None:
    text = re.sub(r"PYTHON_DIGEST=sha256:\w+", 'PYTHON_DIGEST=""', FILE.read_text(encoding="utf-8"))

    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", stages(text)["image"].base)


def test_the_standard_library_that_is_compiled_is_that_of_the_base() -> None:
    image = stages()["image"]
    (run,) = (step for step in image.steps if isinstance(step, Run))
    minor = ".".join(image.base.removeprefix("python:").split(".")[:2])

    assert run.command.endswith(f" /usr/local/lib/python{minor}")


def test_it_runs_as_nobody_and_starts_without_a_shell() -> None:
    image = stages()["image"]

    assert (image.user, image.entrypoint) == (f"{NOBODY}:{NOBODY}", ("fleet",))


def test_it_says_what_it_is() -> None:
    given = {"VERSION": "1.2.3", "REVISION": "abc", "CREATED": "2026-01-01T00:00:00Z"}
    text = FILE.read_text(encoding="utf-8")
    for name, value in given.items():
        text = text.replace(f'ARG {name}=""', f"ARG {name}={value}")
    labels = {name.rpartition(".")[2]: value for name, value in stages(text)["image"].labels.items()}

    assert labels.keys() == {"title", "description", "licenses", "version", "revision", "created"}
    assert [labels[name.lower()] for name in given] == list(given.values())


def test_the_wheel_is_built_with_the_tag() -> None:
    text = FILE.read_text(encoding="utf-8").replace('ARG TAG=""', "ARG TAG=v0.0.2021110101")
    built = stages(text.replace('ARG REVISION=""', "ARG REVISION=abc"))

    assert built["build"].environment["FLEET_BUILD_TAG"] == "v0.0.2021110101"
    assert built["build"].environment["FLEET_BUILD_REVISION"] == "abc"
    assert not [name for name in built["image"].environment if name.startswith("FLEET_BUILD_")]


@pytest.mark.parametrize("name", ["SOURCE_DATE_EPOCH", "TAG", "VERSION", "REVISION", "CREATED"])
def test_what_differs_from_commit_to_commit_comes_after_what_does_not(name: str) -> None:
    """An engine carries out again whatever stands below an argument that has another value."""
    head, declared, below = FILE.read_text(encoding="utf-8").partition(f"ARG {name}=")
    stage = list(instructions(f"{declared}{below}".partition("\nFROM ")[0]))
    others = [one.text for one in stage if one.keyword == "RUN" and re.search(r"--requirement|uninstall", one.text)]

    assert "--requirement" in head
    assert others == []


def test_an_instruction_that_nobody_carries_out_is_refused() -> None:
    with pytest.raises(ValueError, match="ADD"):
        list(instructions("FROM python AS a\nADD x y"))


def test_references_are_filled_in_as_by_an_engine() -> None:
    assert filled("a${X:+@${X}}${Y:+b}${X}", {"X": "1"}) == "a@11"


# --- what is in it ----------------------------------------------------------------------------------------------------


def test_every_module_is_compiled_and_never_looked_at_again(image: Image) -> None:
    """Unless the source itself is no Python of this version: packages bring such as templates."""
    stale = {
        str(source.relative_to(image.packages))
        for source in image.packages.rglob("*.py")
        if not _is_fixed(_compiled(source)) and _is_python(source)
    }

    assert stale == set()


def _compiled(source: Path) -> Path:
    (tag,) = {path.suffixes[0] for path in (source.parent / "__pycache__").glob("*.pyc")} or {".none"}
    return source.parent / "__pycache__" / f"{source.stem}{tag}.pyc"


def _is_fixed(compiled: Path) -> bool:
    return compiled.is_file() and compiled.read_bytes()[:8] == MAGIC_NUMBER + UNCHECKED_HASH


def _is_python(source: Path) -> bool:
    try:
        compile(source.read_bytes(), str(source), "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def test_there_is_no_installer_in_it(image: Image) -> None:
    names = {path.name for path in image.packages.iterdir()} | {path.name for path in (image.tree / "bin").iterdir()}

    assert not names & {"pip", "setuptools", "wheel", "hatchling"}


def test_what_is_installed_is_what_is_locked(image: Image) -> None:
    lock = (ROOT / "requirements" / "image.txt").read_text(encoding="utf-8")
    locked = {(name.lower(), version) for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE)}
    installed = {
        (name.lower().replace("_", "-"), version)
        for name, version in (path.stem.rsplit("-", 1) for path in image.packages.glob("*.dist-info"))
    }
    normal = {(name.replace("_", "-").replace(".", "-"), version) for name, version in locked}

    assert {(name.replace(".", "-"), version) for name, version in installed} <= normal | {
        ("fleet-placement", __version__)
    }
    assert ("psycopg-binary", dict(normal)["psycopg-binary"]) in installed


def test_the_bill_of_materials_lists_what_is_installed(image: Image) -> None:
    bill = json.loads((image.tree / "sbom.cdx.json").read_text(encoding="utf-8"))
    installed = {
        (re.sub(r"[-_.]+", "-", name).lower(), version)
        for name, version in (path.stem.rsplit("-", 1) for path in image.packages.glob("*.dist-info"))
    }
    assert {(one["name"], one["version"]) for one in bill["components"]} == installed - {
        ("fleet-placement", __version__)
    }


def test_nobody_but_root_could_write_to_it(image: Image) -> None:
    loose = {
        str(path)
        for path in image.tree.rglob("*")
        if not path.is_symlink() and (path.stat().st_uid or path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    }

    assert loose == set()


@pytest.mark.long
@pytest.mark.timeout(2 * SECONDS_TO_BUILD)
def test_a_second_build_makes_the_same_bytes(image: Image, tmp_path: Path) -> None:
    again = built(image.source, tmp_path)

    assert dict(_prints(again.tree)) == dict(_prints(image.tree))


def test_the_base_loses_its_installer_and_is_compiled(rooms: None, tmp_path: Path) -> None:
    """The one instruction of the second stage that runs anything, on a copy of this Python's library."""
    (run,) = (step for step in stages()["image"].steps if isinstance(step, Run))
    there, library = sysconfig.get_path("stdlib"), tmp_path / "library"
    shutil.copytree(there, library, ignore=shutil.ignore_patterns("site-packages", "test", "__pycache__"))
    installer = Path(pip.__file__).parent
    for folder in (installer, *installer.parent.glob("pip-*.dist-info")):
        shutil.copytree(folder, library / "site-packages" / folder.name)
    place = f"/usr/local/lib/{Path(there).name}"
    (tmp_path / "root").mkdir()
    room = Room(
        root=str(tmp_path / "root"),
        readable={path: source for path, source in with_python(tools=True).items() if path != place},
        writable={place: str(library)},
        environment={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root"},
    )

    said_in(room, "/bin/sh", "-ec", run.command)

    assert not {path.name for path in library.rglob("*")} & {"pip", "ensurepip"}
    assert _is_fixed(_compiled(library / "asyncio" / "runners.py"))


def _prints(tree: Path) -> Iterator[tuple[str, tuple[int, float, str]]]:
    """Of every file: rights, time, content."""
    for path in tree.rglob("*"):
        about = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        digest = hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()
        yield str(path.relative_to(tree)), (about.st_mode, about.st_mtime, digest)


# --- how it runs ------------------------------------------------------------------------------------------------------


def a_room(image: Image, folder: Path) -> Room:
    """As little as a container can have: the image, and `/tmp`."""
    for name in ("root", "tmp"):
        (folder / name).mkdir(parents=True)
    (folder / "tmp").chmod(0o1777)
    return Room(
        root=str(folder / "root"),
        readable={**with_python(), TREE: str(image.tree)},
        writable={"/tmp": str(folder / "tmp")},
        environment=stages()["image"].environment,
        user=NOBODY,
    )


def said_in(room: Room, *command: str) -> str:
    done = subprocess.run(room.entered(*command), capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_says_its_version(image: Image, tmp_path: Path) -> None:
    assert said_in(a_room(image, tmp_path), "fleet", "--version") == f"fleet {__version__}\n"


@pytest.mark.parametrize("folder", ["/", "/opt", TREE, f"{TREE}/bin", "/var", "/usr/local"])
def test_a_room_is_as_closed_as_a_pod(folder: str, image: Image, tmp_path: Path) -> None:
    attempt = f"import os; os.makedirs({folder!r}, exist_ok=True); open({folder + '/new'!r}, 'w')"
    done = subprocess.run(
        a_room(image, tmp_path).entered("python", "-c", attempt), capture_output=True, text=True, check=False, cwd=ROOT
    )

    assert "Read-only file system" in done.stderr or "Permission denied" in done.stderr


def test_a_room_has_no_shell(image: Image, tmp_path: Path) -> None:
    done = subprocess.run(a_room(image, tmp_path).entered("sh"), capture_output=True, text=True, check=False, cwd=ROOT)

    assert "there is no sh in the room" in done.stderr


def test_tables_are_made_in_sqlite(image: Image, tmp_path: Path) -> None:
    said = said_in(a_room(image, tmp_path), "fleet", "migrate", "--url=sqlite:////tmp/history.sqlite")

    assert said.startswith("the history was migrated from base to ")


def test_tables_are_made_in_postgresql(image: Image, tmp_path: Path, postgres: Postgres) -> None:
    with postgres.database() as url:
        said = said_in(a_room(image, tmp_path), "fleet", "migrate", f"--url={url}")

    assert said.startswith("the history was migrated from base to ")


def test_a_whole_fleet_comes_up_from_it(image: Image, tmp_path: Path) -> None:
    """With the embedded hub, its definitions and its database: all of it is in the image."""
    room, ready = a_room(image, tmp_path), tmp_path / "tmp" / "ready.json"
    command = ("fleet", "up", "--quiet", "--data-dir=/tmp/hub", "--ready-file=/tmp/ready.json", "--clusters=3")
    with Running(room.entered(*command), tmp_path / "log") as running:

        async def is_ready() -> bool:
            running.require_life()
            return ready.exists()

        asyncio.run(soon(is_ready))
        assert running.end() == 0, running.said


def test_an_image_of_ones_own_has_the_plugins_of_a_package(image: Image, tmp_path: Path) -> None:
    """By the steps of the manual, with the example package as a wheel."""
    example = (
        (ROOT / "docs" / "image.md").read_text(encoding="utf-8").partition("```dockerfile\n")[2].partition("```")[0]
    )
    wheel = build_example_wheel(tmp_path / "source")
    pinned = f"./{wheel.name} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"
    (tmp_path / "source" / "my-plugins.txt").write_text(pinned, encoding="utf-8")
    shutil.copytree(image.tree, tmp_path / "build" / "opt" / "fleet", symlinks=True)
    building = Building(tmp_path / "build", source=tmp_path / "source", stage=stages(example)["build"])
    shutil.copy2(wheel, tmp_path / "build" / "source")
    building.build()

    room = a_room(Image(image.source, building.opt), tmp_path / "room")
    listed = [line.split() for line in said_in(room, "fleet", "plugins", "list").splitlines()]
    assert [words[:2] + words[-2:] for words in listed if words[0] == "RegionQuarantine"] == [
        ["RegionQuarantine", "filter", "acme-fleet-plugins", "1.0"]
    ]
    assert _is_fixed(_compiled(next(building.opt.rglob("quarantine.py"))))


def test_both_roles_run_as_the_chart_starts_them(image: Image, machine: Machine) -> None:
    before = dict(_prints(image.tree))
    with machine.run("fleet-controller", "migrate") as migrating:
        assert migrating.ended() == 0, migrating.said
    with machine.run("fleet-controller", "controller") as controller, machine.run("fleet-api", "api") as api:
        asyncio.run(_walk(machine, controller, api))
        codes = api.end(), controller.end()

    assert codes == (0, 0), f"{controller.said}\n{api.said}"
    assert dict(_prints(image.tree)) == before
    assert {path.name.partition("-")[0] for path in machine.written()} == {"history.sqlite"}


async def _walk(machine: Machine, controller: Running, api: Running) -> None:
    """A placement is decided, and the other role explains it from the record in the volume that both share."""
    (settled,) = (machine.folder / "volumes").glob("tls")
    trusting = ssl.create_default_context(cafile=settled / "ca.crt")
    health = f"http://127.0.0.1:{machine.ports['8081']}"
    questions = f"https://localhost:{machine.ports['8090']}"
    bearer = {"Authorization": f"Bearer {machine.access.tokens['admin']}"}
    async with (
        Hub("real", machine.access).connected() as transport,
        httpx.AsyncClient(verify=trusting, headers=bearer, timeout=SECONDS_TO_ANSWER) as asking,
    ):
        for running, url in ((controller, health), (api, questions)):
            await soon(lambda running=running, url=url: _is_ready(running, f"{url}/readyz"))
        fleet = World(transport)
        await fleet.join("a")
        await fleet.place("web", {"placementType": "PickN", "numberOfClusters": 1})
        await fleet.soon_scheduled("web")

        async def recorded() -> bool:
            answer = await asking.get(f"{questions}/v1/placements/-/web/why")
            return answer.status_code == 200 and answer.json()["attempt"]["evaluatedOn"] == "recorded"

        await soon(recorded)
        figures = await asking.get(f"http://127.0.0.1:{machine.ports['8080']}/metrics")
    assert "fleet_schedule_attempts_total" in figures.text


async def _is_ready(running: Running, url: str) -> bool:
    """As a kubelet asks: without a token, and without looking at the certificate."""
    running.require_life()
    async with httpx.AsyncClient(verify=False) as probing:
        try:
            return (await probing.get(url)).status_code == 200
        except httpx.TransportError:
            return False

"""Every policy of `tests/policies` through five doors: `fleet why`, `fleet why-not`, `fleet simulate`, and the API as
JSON and as text. They say the same of it, and nothing that contradicts itself."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import structlog

from fleet.cli.main import run
from tests.api.policy_stage import PolicyStage, a_policy_stage, read_documents
from tests.api.stage import PATIENT, Json, Running, in_a_thread
from tests.policies import REFUSED, REMARKED, TOLD, path_of

NOT_YAML: Final = ("11-yaml-error", "11b-yaml-tab")
OF_FILES: Final = (*NOT_YAML, "12-duplicate")
"""What is wrong with a file is nothing that a request can have."""
EMPTY: Final = re.compile(r"\bNone\b|\bnan\b|\(\)|\[\]|\{\}|: ?[;,]|, ,|  [;,.]|\(none\)|^\W+$")
"""What a sentence looks like when a value was missing."""
OF_THE_HUB: Final = ("Warning at ", "spec.resourceSelectors selects nothing", "evaluated on the fleet as it is now")
LATER: Final = ("FIXES", "NOT ENOUGH", "NEXT", "no fix", "WARNINGS")
"""Sections that a file has not: fixes are searched by the API, and the queue and events are the hub's."""


class Ran(NamedTuple):
    exit_code: int | str | None
    stdout: str
    stderr: str


class Doors:
    def __init__(self, stage: PolicyStage, running: Running, home: Path) -> None:
        self.stage, self._running = stage, running
        self._environment = {
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "COLUMNS": "250",
            "FLEET_API": stage.url,
            "FLEET_TOKEN_FILE": str(stage.token_file),
        }

    def fleet(self, *arguments: str) -> Ran:
        out, err = StringIO(), StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "argv", ["fleet", *arguments])
            patch.delenv("KUBECONFIG", raising=False)
            for name, value in self._environment.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                run()
        return Ran(ended.value.code, out.getvalue(), err.getvalue())

    def simulate(self, name: str, *options: str) -> Ran:
        files = ("-f", str(self.stage.fleet_file), "-f", path_of(name))
        return self.fleet("simulate", *files, "--set", PATIENT, *options)

    def propose(self, document: Json) -> Json:
        """The refusal of a simulation."""
        answer = self._running.call(self._running.stage.post("/v1/simulate", {"placement": document}))
        assert answer.status_code == 422, answer.text
        refused: Json = answer.json()
        return refused

    def rest(self, path: str) -> tuple[Json, str]:
        """As JSON, and as text."""
        document = self._running.call(self._running.stage.json(path))
        answer = self._running.call(self._running.stage.get(path, Accept="text/plain"))
        assert answer.status_code == 200, answer.text
        return document, answer.text


@pytest.fixture(autouse=True)
def quiet() -> None:
    """What the controller and the API log meanwhile is not the output of a command. Every test begins with the
    defaults."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("policies")
    with in_a_thread(a_policy_stage(folder)) as (stage, loop):
        yield Doors(stage, Running(stage.stage, loop), folder)


def placement_of(name: str) -> str:
    return str(read_documents(name)[0]["metadata"]["name"])


def facts_of(answer: Json) -> Json:
    """What is true of the decision, whoever tells it."""
    verdict = answer["verdict"]
    return {
        "state": verdict["state"],
        "summary": verdict["summary"],
        "counts": verdict["counts"],
        "problems": [(problem["field"], problem["message"]) for problem in verdict["problems"]],
        "missing": verdict["missing"],
        "remarks": answer["remarks"],
        "groups": answer["attempt"]["groups"],
        "clusters": {row["name"]: (row["outcome"], row["rank"], row["short"]) for row in answer["attempt"]["clusters"]},
    }


def sections_of(text: str) -> list[str]:
    """Without the title, which has times, and without what only the hub knows."""
    lines = [line for line in text.rstrip().split("\n")[1:] if not line.startswith(OF_THE_HUB)]
    return [fold(part) for part in "\n".join(lines).strip().split("\n\n") if part and not part.startswith(LATER)]


def fold(text: str) -> str:
    return " ".join(text.split())


def check_sentences(text: str, state: str) -> None:
    said = Counter(line.strip() for line in text.splitlines() if line.strip() and "  " not in line.strip())
    assert not [line for line in text.splitlines() if EMPTY.search(line)], text
    assert [line for line, times in said.items() if times > 1] == [], text
    assert not re.search(r"^[A-Z ]{4,}$\n(\n|\Z)", text, re.MULTILINE), f"a head without rows: {text}"
    if state == "InputError":
        assert not re.search(r"\bfits?\b|is chosen|clusters selected", text), text


@pytest.mark.parametrize("name", REMARKED)
def test_the_doors_say_the_same_of_a_placement(doors: Doors, name: str) -> None:
    placement, told = placement_of(name), TOLD[name]
    document, text = doors.rest(f"/v1/placements/-/{placement}/why?explain=all&limit=100")
    asked = doors.fleet("why", placement)
    asked_as_json = doors.fleet("why", placement, "-o", "json")
    simulated, simulated_as_json = doors.simulate(name), doors.simulate(name, "-o", "json")
    offline = json.loads(simulated_as_json.stdout)["decisions"][0]["answer"]

    assert facts_of(document) == facts_of(offline)
    assert (document["verdict"]["state"], document["verdict"]["summary"]) == (told.state, told.summary)
    assert [remark["message"] for remark in document["remarks"]] == REMARKED[name]
    assert json.loads(asked_as_json.stdout)["remarks"] == document["remarks"]
    assert asked.exit_code == (0 if told.state == "Scheduled" else 1), asked.stderr
    assert simulated.exit_code == (1 if told.state == "InputError" else 0), simulated.stderr
    _, _, shown = simulated.stdout.partition("\n\n")
    assert sections_of(asked.stdout) == sections_of(shown)
    for said in (asked.stdout, text, shown):
        assert said.startswith(f"{placement}   {told.state}")
        assert all(sentence in fold(said) for sentence in (told.summary, *REMARKED[name]))
        check_sentences(said, told.state)


@pytest.mark.parametrize("name", REMARKED)
def test_the_doors_say_the_same_of_one_cluster(doors: Doors, name: str) -> None:
    placement, told = placement_of(name), TOLD[name]
    document, text = doors.rest(f"/v1/clusters/{told.cluster}/why-not?placement={placement}")
    asked = doors.fleet("why-not", told.cluster, placement)
    simulated = doors.simulate(name, "--why", told.cluster)
    _, _, shown = simulated.stdout.partition(f"\n\n{told.cluster}\n\n")

    assert [row["name"] for row in (*document["attempt"]["clusters"],)] == [told.cluster]
    assert document["verdict"]["state"] == told.state
    assert asked.stdout == text, asked.stderr
    assert sections_of(asked.stdout) == sections_of(shown)
    for said in (text, shown):
        assert all(sentence in fold(said) for sentence in told.because), said
        check_sentences(said, told.state)


@pytest.mark.parametrize("name", REFUSED)
def test_what_one_door_refuses_no_other_lets_in(doors: Doors, name: str) -> None:
    """A file that is refused is sent nowhere, and what it means is refused by the hub."""
    offline, live = doors.simulate(name), doors.fleet("simulate", "--live", "-f", path_of(name))

    assert (offline.exit_code, offline.stdout, live.exit_code, live.stdout) == (2, "", 2, "")
    for text in REFUSED[name]:
        assert text in offline.stderr
        assert text in live.stderr


@pytest.mark.parametrize("name", sorted({*REFUSED} - {*OF_FILES}))
def test_the_api_refuses_what_simulate_refuses_in_the_same_words(doors: Doors, name: str) -> None:
    offline = [line for line in doors.simulate(name).stderr.splitlines() if line.startswith("error: ")]

    refused = [doors.propose(document) for document in read_documents(name)]

    said = "; ".join(each["detail"] for each in refused)
    for line in offline:
        _error, _place, _subject, problem = line.split(": ", 3)
        assert problem in said
    for each in refused:
        assert each["field"].startswith("placement.")
        assert each["next"] == f"correct {each['field']} and ask again"

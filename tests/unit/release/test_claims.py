"""Tags are claimed on a real git remote, through `fleet release next` and `claim`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from fleet.release.git import Repository
from tests.unit.release.command import Ran, fleet
from tests.unit.release.repositories import IDENTITY, Clone, clone_remote
from tests.unit.release.stage import Stage

MIDNIGHT = "2021-11-02T00:00:00"


def run_in(clone: Clone, command: str, *options: str, reason: str = "a crash") -> Ran:
    return fleet("release", command, "-C", str(clone.folder), f"--reason={reason}", *options)


def claimed(clone: Clone, *options: str) -> str:
    ran = run_in(clone, "claim", *options)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def refusal(clone: Clone, *options: str, reason: str = "a crash", command: str = "next") -> str:
    before = clone.remote_tags
    ran = run_in(clone, command, *options, reason=reason)
    assert (ran.code, ran.out) == (3, ""), ran.err
    assert clone.remote_tags == before
    return ran.err


# --- what is claimed --------------------------------------------------------------------------------------------------


def test_next_shows_the_tag_and_why_and_claims_nothing(clone: Clone) -> None:
    clone.checkout("release-0.20")
    before = clone.remote_tags
    ran = run_in(clone, "next")

    assert (ran.code, ran.out) == (0, "v0.20.1001\n")
    assert "v0.20.10 is the newest upstream release" in ran.err
    assert "2 patches" in ran.err
    assert clone.remote_tags == before


def test_a_claim_is_an_annotated_tag_with_the_labels_of_the_build(clone: Clone) -> None:
    clone.checkout("release-0.20")
    options = ("--upstream-pr=https://example.com/7", f"--base-image=python@sha256:{'0' * 64}", "-o", "json")
    ran = run_in(clone, "claim", "--built-at=2021-11-02T00:30:00+01:00", *options, reason="crash: empty selector")

    patches = clone.git("rev-list", "--reverse", "v0.20.10..HEAD").split()
    assert ran.json["tag"] == "v0.20.1001"
    assert ran.json["labels"] == {
        "org.opencontainers.image.version": "v0.20.1001",
        "org.opencontainers.image.revision": clone.head,
        "org.opencontainers.image.source": str(clone.folder.parent / "remote.git"),
        "org.opencontainers.image.created": "2021-11-01T23:30:00Z",
        "org.opencontainers.image.base.name": "python",
        "org.opencontainers.image.base.digest": f"sha256:{'0' * 64}",
        "dev.fleet.build/kind": "branchfix",
        "dev.fleet.build/upstream-base": "v0.20.10",
        "dev.fleet.build/patch-count": "2",
        "dev.fleet.build/patches": " ".join(sha[:12] for sha in patches),
        "dev.fleet.build/reason": "crash: empty selector",
        "dev.fleet.build/upstream-pr": "https://example.com/7",
    }
    assert clone.remote_tags["v0.20.1001"] == clone.head
    clone.git("fetch", "--quiet", "--tags")
    assert clone.git("cat-file", "-t", "v0.20.1001") == "tag"
    message = clone.git("tag", "-l", "--format=%(contents)", "v0.20.1001")
    assert all(f"{name}: {value}" in message for name, value in ran.json["labels"].items())


def test_credentials_of_the_remote_do_not_reach_the_labels(clone: Clone) -> None:
    clone.git("remote", "set-url", "origin", "https://user:secret@git.example.com/fleet.git")

    assert Repository(clone.folder).get_source() == "https://git.example.com/fleet.git"


def test_G_01_a_build_counts_as_of_its_day_in_utc(clone: Clone) -> None:
    assert claimed(clone, "--built-at=2021-11-02T00:30:00+01:00") == "v0.0.2021110101"


def test_G_01_the_next_fix_follows_the_highest(clone: Clone) -> None:
    clone.release("v0.20.1009")
    clone.checkout("release-0.20")

    assert run_in(clone, "next").out == "v0.20.1010\n"


def test_G_01_the_hundredth_fix_is_refused(clone: Clone) -> None:
    clone.release("v0.20.1099")
    clone.checkout("release-0.20")

    assert "sequence exhausted for 0.20.10" in refusal(clone)


def test_G_01_prereleases_and_lightweight_tags(clone: Clone) -> None:
    """A pre-release is no base; an upstream tag that is not annotated is one."""
    clone.checkout("release-0.20")
    clone.release("v0.20.12-rc")
    clone.git("push", "--quiet", "origin", "HEAD~1:refs/tags/v0.20.11")

    assert run_in(clone, "next").out == "v0.20.1101\n"


def test_a_fix_on_an_ondemand_release_names_it_as_its_base(clone: Clone) -> None:
    clone.checkout("release-0.20")
    clone.git("push", "--quiet", "origin", "HEAD~1:refs/tags/v0.20.1000")
    ran = run_in(clone, "claim", "-o", "json")

    assert (ran.json["tag"], ran.json["labels"]["dev.fleet.build/upstream-base"]) == ("v0.20.1001", "v0.20.1000")
    assert ran.json["labels"]["dev.fleet.build/patch-count"] == "1"


def test_G_05_the_sequence_restarts_at_midnight_utc(clone: Clone) -> None:
    assert claimed(clone, "--built-at=2021-11-01T23:59:59.8Z") == "v0.0.2021110101"
    clone.commit("third")
    assert claimed(clone, "--built-at=2021-11-02T00:59:59.9+01:00") == "v0.0.2021110102"
    clone.commit("fourth")
    assert claimed(clone, "--built-at=2021-11-02T00:00:00.1Z") == "v0.0.2021110201"


# --- concurrent claims ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.servers)])
def test_G_04_concurrent_claims_give_consecutive_tags(clone: Clone, tmp_path: Path, count: int) -> None:
    """Each in a clone and a process of its own, for a commit of its own. The remote keeps a log of every push."""
    bare = tmp_path / "remote.git"
    hook = bare / "hooks" / "pre-receive"
    hook.write_text(f"#!/bin/sh\ncat >> {tmp_path}/pushes\n", encoding="utf-8")
    hook.chmod(0o755)
    commits = [clone.commit(f"change-{number}") for number in range(count)]
    clones = [clone_remote(bare, tmp_path / f"clone-{number}") for number in range(count)]
    for each, commit in zip(clones, commits, strict=True):
        each.git("checkout", "--quiet", "--detach", commit)
    command = [sys.executable, "-m", "fleet.cli", "release", "claim", "--branch=main", "--reason=load"]
    processes = [
        subprocess.Popen(
            [*command, "--built-at=2021-11-01T12:00:00Z", "-C", str(each.folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **IDENTITY},
        )
        for each in clones
    ]
    outcomes = [process.communicate() for process in processes]

    assert [process.returncode for process in processes] == [0] * count, [err for _, err in outcomes]
    tags = [out.strip() for out, _ in outcomes]
    assert sorted(tags) == [f"v0.0.20211101{seq:02d}" for seq in range(1, count + 1)]
    assert [clone.remote_tags[tag] for tag in tags] == commits
    updates = re.findall(r"^(\w+) \w+ refs/tags/v0\.0\.20211101\d\d$", (tmp_path / "pushes").read_text(), re.MULTILINE)
    assert set(updates) == {"0" * 40}, "a push replaced a tag"


def test_equal_claims_are_different_objects(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git reports success for a push of an object that the remote has already: both would take the tag for theirs."""
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2021-11-01T12:00:00Z")
    objects = set()
    for _ in range(2):
        tag = claimed(clone, "--built-at=2021-11-01T12:00:00Z")
        objects.add(clone.git("rev-parse", f"refs/tags/{tag}"))
        clone.git("push", "--quiet", "--delete", "origin", tag)
        clone.git("tag", "--delete", tag)

    assert len(objects) == 2


def test_G_04_a_ref_is_created_once_even_for_the_same_object(clone: Clone) -> None:
    repository = Repository(clone.folder)

    assert repository.create_remote_ref("refs/tags/v0.20.1001", clone.head)
    assert not repository.create_remote_ref("refs/tags/v0.20.1001", clone.head)
    assert not repository.create_remote_ref("refs/tags/v0.20.1001", clone.git("rev-parse", "HEAD~1"))
    assert clone.remote_tags["v0.20.1001"] == clone.head


def test_a_claim_that_is_always_too_late_gives_up(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remote creates each tag a moment before the claim does. Another try asks only for what may have changed."""
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    hook = tmp_path / "remote.git" / "hooks" / "update"
    hook.write_text(
        "#!/bin/sh\nunset GIT_QUARANTINE_PATH\ngit update-ref $1 $(git rev-parse refs/heads/release-0.20)\n",
        encoding="utf-8",
    )
    hook.chmod(0o755)
    ran = run_in(clone, "claim", "--built-at=2021-11-01T12:00:00Z")

    assert (ran.code, ran.out) == (4, ""), ran.err
    assert "other claims were faster, the last time for v0.0.2021110120" in ran.err
    taken = [tag for tag, commit in clone.remote_tags.items() if tag.startswith("v0.0.")]
    assert sorted(taken) == [f"v0.0.20211101{seq:02d}" for seq in range(1, 21)]
    ran_git = Counter(re.findall(r"built-in: git (\S+)", (tmp_path / "trace").read_text()))
    asked = {name: ran_git[name] for name in ("status", "merge-base", "remote", "fetch")}
    assert max(asked.values()) <= 3, asked


def test_a_locked_tag_is_not_lost(clone: Clone, tmp_path: Path) -> None:
    """Another push holds its lock for more pushes than tags may be lost, and ends without creating it."""
    bare = tmp_path / "remote.git"
    lock = bare / "refs" / "tags" / "v0.0.2021110101.lock"
    lock.touch()
    hook = bare / "hooks" / "pre-receive"
    hook.write_text(
        f'#!/bin/sh\necho >> {tmp_path}/pushes\n[ "$(wc -l < {tmp_path}/pushes)" -lt 22 ] || rm -f {lock}\n',
        encoding="utf-8",
    )
    hook.chmod(0o755)

    assert claimed(clone, "--built-at=2021-11-01T12:00:00Z") == "v0.0.2021110101"


def test_a_remote_that_refuses_tags_is_no_race(clone: Clone, tmp_path: Path) -> None:
    hook = tmp_path / "remote.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho tags are protected >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    ran = run_in(clone, "claim")

    assert ran.code == 2
    assert "tags are protected" in ran.err


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_G_06_a_dirty_tree(clone: Clone) -> None:
    (clone.folder / "stray").touch()

    assert "the working tree is dirty: ?? stray" in refusal(clone)


def test_G_06_an_upstream_release(clone: Clone) -> None:
    clone.release("v0.21.0")

    assert "HEAD is upstream v0.21.0" in refusal(clone)


def test_G_06_G_10_a_commit_that_has_a_tag_already(clone: Clone) -> None:
    day = "--built-at=2021-11-01T12:00:00Z"
    first = run_in(clone, "claim", day, "-o", "json").json
    assert f"HEAD already has the tag {first['tag']}" in refusal(clone, day, command="claim")

    second = run_in(clone, "claim", day, "--rebuild-reason=the base has a fix", "-o", "json").json
    revision = "org.opencontainers.image.revision"
    assert (first["tag"], second["tag"]) == ("v0.0.2021110101", "v0.0.2021110102")
    assert second["labels"][revision] == first["labels"][revision] == clone.head
    assert second["labels"]["dev.fleet.build/reason"] == "a crash; built again: the base has a fix"


def test_G_10_a_first_build_is_no_rebuild(clone: Clone) -> None:
    assert "HEAD has no tag yet" in refusal(clone, "--rebuild-reason=again")


def test_G_06_no_commits_beyond_the_base(clone: Clone) -> None:
    """A merge brings nothing of its own."""
    clone.checkout("release-0.20")
    clone.git("checkout", "--quiet", "-B", "release-0.20", "v0.20.10")
    tree = clone.git("rev-parse", "v0.20.10^{tree}")
    merge = clone.git("commit-tree", tree, "-p", "v0.20.10^0", "-p", "v0.20.0^0", "-m", "joins")
    clone.git("reset", "--quiet", "--hard", merge)
    clone.git("push", "--quiet", "--force", "origin", "HEAD:release-0.20")

    assert "no commits beyond v0.20.10" in refusal(clone)


def test_G_06_no_reason(clone: Clone) -> None:
    assert "--reason is missing" in refusal(clone, reason=" ")


def test_a_reason_of_two_lines(clone: Clone) -> None:
    assert "--reason: should be one line" in refusal(clone, reason="crash\ndev.fleet.build/kind: release")


def test_G_06_branch_and_minor_that_disagree(clone: Clone) -> None:
    clone.checkout("release-0.21", "release-0.20")

    assert "branch release-0.21 and base disagree: the newest upstream release of HEAD is v0.20.10" in refusal(clone)


def test_G_06_a_main_build_from_a_release_branch_and_the_reverse(clone: Clone) -> None:
    assert "HEAD is not on release-0.20 of the remote: it is on main" in refusal(clone, "--branch=release-0.20")
    clone.checkout("release-0.20")
    assert "HEAD is not on main of the remote: it is on release-0.20" in refusal(clone, "--branch=main")


def test_G_06_the_upstream_registry_as_target(clone: Clone) -> None:
    upstream = "--upstream-registry=registry.example.com/upstream"
    text = refusal(clone, "--registry=registry.example.com/upstream/fleet", upstream)

    assert "registry.example.com/upstream/fleet is in the upstream registry" in text


def test_G_06_a_fix_on_a_zero_release(clone: Clone) -> None:
    clone.release("v0.22.0")
    clone.checkout("release-0.22", "main")
    clone.commit("patch")

    assert "a fix on v0.22.0 cannot be expressed: ask upstream for v0.22.1" in refusal(clone)


def test_G_01_a_build_in_the_future(clone: Clone) -> None:
    assert "is in the future" in refusal(clone, "--built-at=2999-01-01T00:00:00Z")


def test_a_branch_that_makes_no_builds(clone: Clone) -> None:
    clone.checkout("feature", "main")

    assert "no builds are made from branch feature" in refusal(clone)


def test_a_commit_that_is_on_no_branch_of_the_remote(clone: Clone) -> None:
    clone.git("commit", "--quiet", "--allow-empty", "-m", "not pushed")

    assert "HEAD is not on main of the remote: push it first" in refusal(clone)


def test_a_branch_that_the_remote_does_not_have(clone: Clone) -> None:
    assert "the remote has no branch release-0.9; push it first" in refusal(clone, "--branch=release-0.9")


def test_a_detached_head_needs_a_branch(clone: Clone) -> None:
    clone.git("checkout", "--quiet", "--detach")

    assert "HEAD is on no branch" in refusal(clone)
    assert run_in(clone, "next", "--branch=main").code == 0


def test_a_release_branch_without_a_release(clone: Clone) -> None:
    for tag in ("v0.20.0", "v0.20.10"):
        clone.git("push", "--quiet", "--delete", "origin", tag)
    clone.checkout("release-0.20")

    assert "HEAD contains no upstream release" in refusal(clone)


def test_all_refusals_are_listed_at_once(clone: Clone) -> None:
    (clone.folder / "stray").touch()
    clone.release("v0.21.0")

    assert refusal(clone, reason="").count("error: ") == 3


# --- git --------------------------------------------------------------------------------------------------------------


def test_a_remote_is_no_option_of_git(clone: Clone) -> None:
    ran = run_in(clone, "next", f"--remote=--upload-pack=touch {clone.folder}/stray;")

    assert ran.code == 2
    assert "--remote: git would take it for an option" in ran.err
    assert not (clone.folder / "stray").exists()


def test_a_shallow_clone_is_refused(clone: Clone, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    clone.git("clone", "--quiet", "--depth=1", f"file://{tmp_path}/remote.git", str(shallow))
    ran = run_in(Clone(shallow), "next")

    assert (ran.code, ran.out) == (2, "")
    assert "shallow clone" in ran.err
    assert "git fetch --unshallow" in ran.err


def test_without_git_the_next_step_is_to_install_it(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(clone.folder))
    ran = run_in(clone, "next")

    assert (ran.code, ran.out) == (2, "")
    assert "no executable `git`" in ran.err
    assert "next: install git" in ran.err


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_a_folder_without_a_clone_is_named(tmp_path: Path, folder: str) -> None:
    ran = run_in(Clone(tmp_path / folder), "next")

    assert ran.code == 2
    assert str(tmp_path) in ran.err


def test_a_remote_that_is_not_there_is_named(clone: Clone) -> None:
    ran = run_in(clone, "next", "--remote=elsewhere")

    assert ran.code == 2
    assert "elsewhere" in ran.err


@pytest.mark.parametrize(
    "option",
    [
        "--upstream-pr=x\ndev.fleet.build/kind: release",
        f"--base-image=x\u2028y@sha256:{'1' * 64}",
        "--upstream-pr=\x1b[2J",
    ],
)
def test_a_label_is_one_line(clone: Clone, option: str) -> None:
    before = clone.remote_tags
    ran = run_in(clone, "claim", option)

    assert ran.code == 2
    assert "should be one line of printable characters" in ran.err
    assert clone.remote_tags == before


@pytest.mark.parametrize("base", ["python", "python@sha256:1", "python@3.13", f"@sha256:{'1' * 64}"])
def test_a_base_needs_its_name_and_its_digest(clone: Clone, base: str) -> None:
    before = clone.remote_tags
    ran = run_in(clone, "claim", f"--base-image={base}")

    assert ran.code == 2
    assert (
        f"--base-image: should be NAME@sha256:… with 64 digits, so that the build can be repeated, not '{base}'"
        in ran.err
    )
    assert clone.remote_tags == before


@pytest.mark.parametrize("text", ["yesterday", "2021-11-01T12:00:00", "0001-01-01T00:00:00+14:00"])
def test_a_time_needs_an_offset(clone: Clone, text: str) -> None:
    ran = run_in(clone, "next", f"--built-at={text}")

    assert ran.code == 2
    assert "--built-at: should be a time with its offset" in ran.err


def test_refs_of_the_clone_are_left_alone(clone: Clone, tmp_path: Path) -> None:
    """Only the claimed tag is added, although the remote has refs that this clone has not seen."""
    other = clone_remote(tmp_path / "remote.git", tmp_path / "other")
    other.checkout("release-0.20")
    other.commit("patch-3")
    other.release("v0.20.11")
    before = set(clone.git("for-each-ref").splitlines())
    assert claimed(clone, "--built-at=2021-11-01T12:00:00Z") == "v0.0.2021110101"

    added = set(clone.git("for-each-ref").splitlines()) - before
    assert [line.split("\t")[1] for line in added] == ["refs/tags/v0.0.2021110101"]


def test_a_record_is_never_fast_forwarded(stage: Stage) -> None:
    """Both lead to one commit, so git alone would take the second for a newer one."""
    repository = Repository(stage.clone.folder)
    head = repository.resolve("HEAD")
    first, second = (repository.write_tag_object("record", head, text) for text in ("first", "second"))

    assert repository.create_remote_ref("refs/fleet/records/x", first)
    assert not repository.create_remote_ref("refs/fleet/records/x", second)
    assert repository.list_refs().by_name["refs/fleet/records/x"] == first

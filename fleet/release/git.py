"""A git repository and its remote, through the git executable.

What counts is the state of the remote: tags are read from there and pushed there, never with force. Refs of the user's
clone are left alone, except that a new tag is added.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from fleet.errors import FleetError, InputError
from fleet.release.tags import Tag, TagError, parse_tag

TAGS: Final = "refs/tags/"
BRANCHES: Final = "refs/heads/"
RECORDS: Final = "refs/fleet/"
"""What publishing and superseding leave behind."""
_PEELED: Final = "^{}"
_ABSENT: Final = "0" * 40
_TAKEN: Final = re.compile(
    r"already exists|cannot lock ref|failed to update ref|failed to lock|reference exists|stale info"
)
"""How servers refuse to create a ref that another push creates, or has just created."""


class GitError(FleetError):
    pass


class GitMissing(GitError):
    pass


@dataclass(frozen=True, slots=True)
class TaggedCommit:
    tag: Tag
    object: str
    """The tag object, or the commit where the tag is not annotated."""
    commit: str


@dataclass(frozen=True, slots=True)
class RemoteRefs:
    """All refs of the remote, read at one moment."""

    by_name: Mapping[str, str]

    def get_branch(self, name: str) -> str | None:
        return self.by_name.get(f"{BRANCHES}{name}")

    def list_branches(self) -> list[str]:
        return [name.removeprefix(BRANCHES) for name in self.by_name if name.startswith(BRANCHES)]

    def list_tags(self) -> Iterator[TaggedCommit]:
        """Those that are release tags."""
        for name, sha in self.by_name.items():
            if name.startswith(TAGS) and not name.endswith(_PEELED):
                try:
                    tag = parse_tag(name.removeprefix(TAGS))
                except TagError:
                    continue
                yield TaggedCommit(tag, sha, self.by_name.get(name + _PEELED, sha))

    def find_tag(self, text: str) -> TaggedCommit | None:
        return next((tagged for tagged in self.list_tags() if tagged.tag.text == text), None)


@dataclass(frozen=True, slots=True)
class TagObject:
    target: str
    message: str


class Repository:
    def __init__(self, folder: Path, remote: str = "origin") -> None:
        if remote.startswith("-"):
            raise InputError("git would take it for an option", field="--remote", value=remote)
        self._folder = folder
        self._remote = remote
        self._has_history = False
        self._known: dict[tuple[str, ...], subprocess.CompletedProcess[str]] = {}

    # --- the remote -------------------------------------------------------------------------------------------------

    def fetch(self, refs: RemoteRefs) -> None:
        """Brings the objects that are missing here, and moves no ref of this clone."""
        if not self._has_history and self._read("rev-parse", "--is-shallow-repository") == "true":
            raise GitError(
                f"{self._folder} is a shallow clone, so its history does not show what a commit contains\n"
                "next: `git fetch --unshallow`, or check out with the full history"
            )
        self._has_history = True
        wanted = {name: sha for name, sha in refs.by_name.items() if _is_read(name)}
        checks = self._read("cat-file", "--batch-check=%(objectname)", text="\n".join({*wanted.values()})).splitlines()
        missing = {line.partition(" ")[0] for line in checks if line.endswith(" missing")}
        names = [name for name, sha in wanted.items() if sha in missing]
        if names:
            options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", "--stdin")
            self._read("fetch", *options, self._remote, text="\n".join(names))

    def list_refs(self) -> RemoteRefs:
        lines = self._read("ls-remote", self._remote).splitlines()
        return RemoteRefs({name: sha for sha, name in (line.split("\t") for line in lines)})

    def create_remote_ref(self, name: str, sha: str) -> bool:
        """Whether this call created the ref. False: it exists, or is being created by another push."""
        # The empty expectation: a record is a ref that git would fast-forward without it.
        must_be_absent = f"--force-with-lease={name}:"
        push = ("-c", "push.followTags=false", "push", "--porcelain", must_be_absent, self._remote, f"{sha}:{name}")
        done = self._run(*push)
        lines = [line for line in done.stdout.splitlines() if f":{name}\t" in line]
        if done.returncode == 0 and any(line.startswith("*") for line in lines):
            return True
        if done.returncode == 0 or any(line.startswith("!") and _TAKEN.search(line) for line in lines):
            return False
        if self.list_refs().by_name.get(name) == sha:
            return True  # the answer was lost on the way
        raise GitError(f"{self._remote} refused {name}: {_join_lines(done.stderr)}")

    def get_source(self) -> str:
        """The address of the remote, without credentials."""
        url = urlsplit(self._read("remote", "get-url", self._remote))
        return urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))

    # --- the clone --------------------------------------------------------------------------------------------------

    def resolve(self, revision: str) -> str:
        done = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if done.returncode:
            raise GitError(f"{revision} is no commit of {self._folder}\nnext: `git log` lists commits; fetch it first")
        return done.stdout.strip()

    def get_branch(self) -> str | None:
        """None: HEAD is detached."""
        done = self._run("symbolic-ref", "--quiet", "--short", "HEAD")
        return done.stdout.strip() if done.returncode == 0 else None

    def list_changes(self) -> list[str]:
        return self._read("status", "--porcelain", "--untracked-files=normal").splitlines()

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        return self._ask("merge-base", "--is-ancestor", ancestor, descendant, fine=(0, 1)).returncode == 0

    def list_patches(self, base: str, head: str) -> list[str]:
        """Commits beyond the base, oldest first."""
        return self._ask("rev-list", "--reverse", "--no-merges", f"{base}..{head}").stdout.splitlines()

    def has_equivalent(self, commit: str, upstream: str) -> bool:
        """Whether `upstream` has another commit with the same change."""
        _, *parents = self._read("rev-list", "--max-count=1", "--parents", commit).split()
        if len(parents) != 1:
            return False  # a merge or a root has no change of its own to compare
        return self._read("cherry", upstream, commit, f"{commit}~1").startswith("-")

    def write_tag_object(self, tag: str, commit: str, message: str) -> str:
        """An annotated tag without a ref."""
        tagger = self._read("var", "GIT_COMMITTER_IDENT")
        content = f"object {commit}\ntype commit\ntag {tag}\ntagger {tagger}\n\n{message}\n"
        return self._read("mktag", text=content)

    def read_tag_object(self, sha: str) -> TagObject | None:
        """None: it is no annotated tag."""
        if self._read("cat-file", "-t", sha) != "tag":
            return None
        head, _, message = self._read("cat-file", "tag", sha).partition("\n\n")
        return TagObject(head.partition("\n")[0].removeprefix("object "), message)

    def add_local_tag(self, tag: str, sha: str) -> None:
        """A tag of that name in this clone is kept: the one on the remote counts."""
        self._run("update-ref", f"{TAGS}{tag}", sha, _ABSENT)

    # --- running ----------------------------------------------------------------------------------------------------

    def _read(self, *arguments: str, text: str | None = None) -> str:
        done = self._run(*arguments, text=text)
        if done.returncode:
            raise GitError(f"git {arguments[0]} failed in {self._folder}: {_join_lines(done.stderr)}")
        return done.stdout.strip()

    def _ask(self, *arguments: str, fine: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        """About commits that are named in full, so that the answer never changes."""
        if arguments not in self._known:
            done = self._run(*arguments)
            if done.returncode not in fine:
                raise GitError(_join_lines(done.stderr))
            self._known[arguments] = done
        return self._known[arguments]

    def _run(self, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        # Messages are compared, so they must not be translated; and a prompt would hang a pipeline.
        environment = {**os.environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
        try:
            return subprocess.run(
                ["git", "-C", str(self._folder), *arguments],
                input="" if text is None else text,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                env=environment,
                check=False,
            )
        except FileNotFoundError:
            raise GitMissing(
                "there is no executable `git` on the PATH, and release tags live in git\nnext: install git"
            ) from None


def _is_read(name: str) -> bool:
    return name.startswith((BRANCHES, TAGS, RECORDS)) and not name.endswith(_PEELED)


def _join_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("hint:")]
    return "; ".join(lines[:5]) or "git gave no reason"

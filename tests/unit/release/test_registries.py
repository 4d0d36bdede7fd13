"""A registry over time: tags that it has, audits, advice and marks, through `fleet release`."""

from __future__ import annotations

import json

import pytest

from fleet.release.oci import registry
from fleet.release.oci.registry import INDEX, RegistryClient, StoredManifest
from fleet.release.supersession import ARTIFACT, SUPERSEDED_BY
from tests.unit.release.command import Ran, fleet
from tests.unit.release.images import MANIFEST
from tests.unit.release.registry_server import Manifest
from tests.unit.release.stage import PATH, TAG, Stage

SNAPSHOT = "v0.0.2021110101"


def put(stage: Stage, tag: str, *, path: str = PATH, version: str | None = None, content: str = "") -> None:
    """As another client does: an image whose labels say `version`."""
    labels = {"org.opencontainers.image.version": tag if version is None else version}
    config = json.dumps({"config": {"Labels": labels}, "comment": content}).encode()
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "layers": []}
    digest = stage.registry.put_manifest(path, "config", Manifest(config, "application/json"))
    del stage.registry.tags[path]["config"]
    stage.registry.blobs[path][digest] = config
    content_of = json.dumps({**manifest, "config": {"digest": digest, "size": len(config)}}).encode()
    stage.registry.put_manifest(path, tag, Manifest(content_of, MANIFEST))


def audit(stage: Stage, *options: str, address: str = "") -> Ran:
    return fleet("release", "audit", address or stage.target, "-o", "json", *options)


def findings(stage: Stage, *options: str) -> list[tuple[str, str, str]]:
    found = audit(stage, *options).json["findings"]
    return [(each["severity"], each["image"].rpartition(":")[2], each["message"]) for each in found]


def advise(stage: Stage, commit: str) -> str:
    ran = fleet("release", "advise", f"--contains={commit}", "-C", str(stage.clone.folder))
    assert ran.code == 0, ran.err
    return f"{ran.out.strip()}: {ran.err.strip()}"


def supersede(stage: Stage) -> Ran:
    return fleet("release", "supersede", stage.target, "-C", str(stage.clone.folder))


@pytest.mark.parametrize(
    "following, message",
    [("file:///etc/hostname", "continues its list elsewhere: file:///etc/hostname"), ("", "lists more than 3 pages")],
    ids=["a file", "without end"],
)
def test_a_list_that_leads_astray_is_refused(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, following: str, message: str
) -> None:
    monkeypatch.setattr(registry, "_MOST_PAGES", 3)
    put(stage, "v0.20.1001")
    stage.registry.next_page = following or f"/v2/{PATH}/tags/list"
    ran = audit(stage)

    assert ran.code != 0
    assert message in ran.err


# --- tags in the registry ---------------------------------------------------------------------------------------------


def test_a_tag_that_only_the_registry_has_is_used_as_well(stage: Stage) -> None:
    """On the second page of its list."""
    for tag in ("v0.20.1001", "v0.20.1002", "v0.20.1003"):
        put(stage, tag)
    registry = f"--registry={stage.target}"
    ran = fleet("release", "next", "-C", str(stage.clone.folder), "--reason=a crash", registry)

    assert ran.out == "v0.20.1004\n"
    assert stage.claim(registry)["org.opencontainers.image.version"] == "v0.20.1004"


def test_the_registry_may_come_from_the_environment(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_RELEASE_REGISTRY", f"{stage.target} {stage.registry.host}/bridge/agent")
    put(stage, "v0.20.1007", path="bridge/agent")

    assert stage.claim()["org.opencontainers.image.version"] == "v0.20.1008"


# --- audits -----------------------------------------------------------------------------------------------------------


def test_a_sound_registry_passes(stage: Stage) -> None:
    stage.build()
    ran = audit(stage, "-C", str(stage.clone.folder))

    assert ran.code == 0
    assert ran.json == {
        "tags": [{"image": f"{stage.target}:{TAG}", "kind": "branchfix", "supersededBy": ""}],
        "findings": [],
    }


def test_G_08_a_mirrored_upstream_image_is_reported(stage: Stage) -> None:
    put(stage, "v0.20.10")
    put(stage, "v0.20.1000")

    assert [(severity, tag, message.partition(":")[0]) for severity, tag, message in findings(stage)] == [
        ("failure", "v0.20.10", "mirrored upstream image"),
        ("failure", "v0.20.1000", "mirrored upstream image"),
    ]
    assert audit(stage).code == 5


@pytest.mark.parametrize(
    "tag,message",
    [
        ("latest", "unknown shape"),
        ("v0.0.2021022901", "unknown shape"),
        ("0.20.1001", "unknown shape"),
        ("v0.0.0", "a local build, which is never published"),
        ("v20201009-v0.18.800-46-g939c1c0", "a staging tag, which is never made here"),
        ("v0.34.4-rc", "a prerelease tag, which is never made here"),
    ],
)
def test_G_01_a_tag_that_does_not_belong_in_a_bridge_registry_is_a_failure(
    stage: Stage, tag: str, message: str
) -> None:
    put(stage, tag)

    assert [(severity, text.partition(":")[0]) for severity, _, text in findings(stage)] == [("failure", message)]
    assert audit(stage).code == 5


def test_G_01_a_fix_in_the_upstream_registry_and_a_future_date_are_warnings(stage: Stage) -> None:
    put(stage, "v0.18.801")
    put(stage, "v0.18.8")
    put(stage, "v0.0.2999010101")
    upstream = findings(stage, "--upstream")

    assert ("warning", "v0.18.801", "a bridge build (branchfix) in the upstream registry") in upstream
    assert ("warning", "v0.0.2999010101", "2999-01-01 is in the future") in upstream
    assert {tag for _, tag, _ in upstream} == {"v0.18.801", "v0.0.2999010101"}
    assert audit(stage, "--upstream").code == 0


def test_G_01_one_tag_with_two_digests_is_a_failure(stage: Stage) -> None:
    stage.build()
    put(stage, TAG)
    (finding,) = findings(stage, "-C", str(stage.clone.folder))

    assert finding[:2] == ("failure", TAG)
    assert "tag moved: two digests, published as sha256:" in finding[2]


def test_a_tag_without_a_record_is_a_failure(stage: Stage) -> None:
    put(stage, TAG)
    (finding,) = findings(stage, "-C", str(stage.clone.folder))

    assert finding == ("failure", TAG, "not published by this tool: git has no record of it")
    assert findings(stage) == []


def test_a_retagged_image_is_a_failure(stage: Stage) -> None:
    put(stage, "v0.20.1001")
    put(stage, "v0.20.1002", version="v0.20.1001")
    texts = [(tag, message) for _, tag, message in findings(stage)]

    assert texts == [
        ("v0.20.1002", "duplicate: the same image as v0.20.1001"),
        ("v0.20.1002", "tag moved: the image was built as v0.20.1001"),
    ]


def test_gaps_are_warnings_over_all_repositories(stage: Stage) -> None:
    for tag, path in ((SNAPSHOT, PATH), ("v0.0.2021110102", "bridge/agent"), ("v0.0.2021110104", PATH)):
        put(stage, tag, path=path)
    put(stage, "v0.20.1002")
    ran = audit(stage, address=f"{stage.registry.host}/bridge")

    assert ran.code == 0
    assert [each["message"] for each in ran.json["findings"]] == [
        "gap: v0.0.2021110103 is not here",
        "gap: v0.20.1001 is not here",
    ]
    assert len(audit(stage, address=stage.registry.host).json["tags"]) == 4


def test_findings_are_lines_of_text(stage: Stage) -> None:
    put(stage, "latest")
    ran = fleet("release", "audit", stage.target)

    assert (ran.code, ran.out.splitlines()[-1]) == (
        5,
        f"failure: {stage.target}:latest: unknown shape: this is no release tag",
    )


@pytest.mark.parametrize("path", ["", "/elsewhere"])
def test_a_registry_without_tags_is_named(stage: Stage, path: str) -> None:
    ran = audit(stage, address=f"{stage.registry.host}{path}")

    assert ran.code == 2
    assert f"{stage.registry.host}{path}: there is no repository with tags" in ran.err


@pytest.mark.parametrize(
    "broken, message",
    [
        (b"{}", "a manifest names content without a digest"),
        (b'{"config": {"digest": 3}}', "a manifest names content without a digest"),
        (b'{"config": {"digest": "sha256:' + b"0" * 64 + b'"}}', "404"),
    ],
)
def test_an_image_that_cannot_be_read_is_reported_and_the_others_are_audited(
    stage: Stage, broken: bytes, message: str
) -> None:
    stage.registry.put_manifest(PATH, "v0.20.1001", Manifest(broken, MANIFEST))
    put(stage, "v0.20.1002", version="v0.20.1003")
    (_, first, cause), (_, second, moved) = findings(stage)

    assert (first, second) == ("v0.20.1001", "v0.20.1002")
    assert cause.startswith("the image cannot be read: ")
    assert message in cause
    assert moved.startswith("tag moved: ")
    assert audit(stage).code == 5


@pytest.mark.parametrize("entries", ["3", '{"a": 1}', "[3]", '["x"]'])
def test_an_index_of_anything_but_descriptors_is_reported(stage: Stage, entries: str) -> None:
    index = f'{{"manifests": {entries}}}'.encode()
    stage.registry.put_manifest(PATH, "v0.20.1001", Manifest(index, INDEX))

    ((_, _, message),) = findings(stage)
    assert message.endswith("names content without a digest")


@pytest.mark.parametrize("annotations", [[], "x", 3, {SUPERSEDED_BY: ["v0.20.1002"]}])
def test_annotations_that_are_none_neither_count_nor_end_the_audit(stage: Stage, annotations: object) -> None:
    tag = stage.build()
    stage.registry.has_referrers = False
    digest = stage.registry.tags[PATH][tag]
    entry = {"artifactType": ARTIFACT, "digest": digest, "annotations": annotations}
    index = json.dumps({"manifests": [entry]}).encode()
    stage.registry.put_manifest(PATH, digest.replace(":", "-"), Manifest(index, INDEX))

    assert successors(stage) == {tag: ""}
    assert audit(stage).code == 0


# --- advice -----------------------------------------------------------------------------------------------------------


def test_G_09_advice_switches_to_upstream_once_it_has_the_commit(stage: Stage) -> None:
    clone = stage.clone
    patch = clone.git("rev-parse", "HEAD~1")
    assert advise(stage, patch).startswith("none: no tag contains")

    stage.build()
    assert advise(stage, patch).startswith("v0.20.1001: no upstream release contains")
    clone.commit("patch-3")
    stage.build()
    assert advise(stage, patch).startswith("v0.20.1002: ")
    clone.release("v0.20.11")
    assert advise(stage, patch).startswith("v0.20.11: upstream release 0.20.11 contains")


def test_G_09_a_tag_that_was_claimed_and_not_published_is_no_advice(stage: Stage) -> None:
    stage.claim()
    advice = advise(stage, "HEAD")
    assert advice.startswith("none: no published tag contains")
    assert advice.endswith("v0.20.1001 is claimed and not published yet")

    stage.build("--rebuild-reason=base")
    assert advise(stage, "HEAD").startswith("v0.20.1002: ")
    stage.claim("--rebuild-reason=base")
    assert advise(stage, "HEAD").startswith("v0.20.1002: ")


def test_G_09_a_copy_of_the_commit_counts(stage: Stage) -> None:
    """Upstream picked it onto its own line, under another id and after other changes."""
    clone = stage.clone
    patch = clone.git("rev-parse", "HEAD~1")
    stage.build()
    clone.git("checkout", "--quiet", "-B", "upstream", "v0.20.10")
    clone.commit("other")
    clone.git("cherry-pick", "-x", patch)
    clone.release("v0.20.11")

    assert clone.head != patch
    assert advise(stage, patch).startswith("v0.20.11: ")
    assert advise(stage, "release-0.20").startswith("v0.20.1001: "), "the second patch was not picked"


def test_advice_is_the_newest_release_of_the_oldest_line(stage: Stage) -> None:
    clone = stage.clone
    patch = clone.head
    for tag in ("v0.20.11", "v0.20.12", "v0.21.0"):
        clone.commit(tag)
        clone.release(tag)

    assert advise(stage, patch).startswith("v0.20.12: ")


def test_advice_is_a_snapshot_where_there_is_nothing_else(stage: Stage) -> None:
    stage.clone.checkout("main")
    commit = stage.clone.head
    stage.build("--built-at=2021-11-01T12:00:00Z")
    stage.build("--built-at=2021-11-02T12:00:00Z", "--rebuild-reason=base")

    assert advise(stage, commit).startswith("v0.0.2021110201: neither a release nor a branch fix contains")


def test_advice_on_a_root_or_merge_compares_no_changes(stage: Stage) -> None:
    clone = stage.clone
    root = clone.git("rev-list", "--max-parents=0", "HEAD")
    clone.git("merge", "--quiet", "--no-ff", "-m", "joins", "main")
    clone.push()
    stage.build()

    assert advise(stage, root).startswith("v0.20.10: ")
    assert advise(stage, "HEAD").startswith("v0.20.1001: ")


def test_advice_on_a_root_of_its_own_is_none(stage: Stage) -> None:
    clone = stage.clone
    clone.git("checkout", "--quiet", "--orphan", "apart")
    clone.commit("apart")

    assert advise(stage, "HEAD").startswith("none: no tag contains")


def test_a_commit_that_is_not_there_is_named(stage: Stage) -> None:
    ran = fleet("release", "advise", "--contains=1234abcd", "-C", str(stage.clone.folder))

    assert ran.code == 2
    assert "1234abcd is no commit of" in ran.err


# --- marks ------------------------------------------------------------------------------------------------------------


def successors(stage: Stage) -> dict[str, str]:
    tags = [each for each in audit(stage).json["tags"] if each["kind"] != "referrers"]
    return {each["image"].rpartition(":")[2]: each["supersededBy"] for each in tags}


def test_older_fixes_are_marked_and_nothing_is_deleted(stage: Stage) -> None:
    stage.build()
    assert supersede(stage).out == ""
    stage.clone.commit("patch-3")
    stage.build()
    before = dict(stage.registry.tags[PATH])
    first, second = supersede(stage), supersede(stage)

    assert (first.code, first.out) == (0, "v0.20.1001 superseded by v0.20.1002: a later fix has its patches\n")
    assert second.out == first.out.replace("\n", " (marked before)\n")
    assert stage.registry.tags[PATH] == before
    assert successors(stage) == {"v0.20.1001": "v0.20.1002", "v0.20.1002": ""}
    assert stage.verify().code == 0


def test_a_fix_is_superseded_once_upstream_ships_all_of_it(stage: Stage) -> None:
    clone = stage.clone
    patches = clone.git("rev-list", "--reverse", "v0.20.10..HEAD").split()
    stage.build()
    clone.git("checkout", "--quiet", "-B", "upstream", "v0.20.10")
    clone.git("cherry-pick", patches[0])
    clone.release("v0.20.11")
    partly = supersede(stage)
    clone.git("cherry-pick", patches[1])
    clone.release("v0.20.12")

    assert partly.out == ""
    assert supersede(stage).out == "v0.20.1001 superseded by v0.20.12: upstream ships its patches\n"
    assert successors(stage) == {"v0.20.1001": "v0.20.12"}


@pytest.mark.parametrize("mark", ["v0.20.10001", "v0.0.0", "", "latest"])
def test_a_mark_that_names_no_build_neither_counts_nor_ends_the_audit(stage: Stage, mark: str) -> None:
    tag = stage.build()
    client = RegistryClient(stage.registry.host)
    root = client.get_manifest(PATH, tag)
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": ARTIFACT,
        "config": root.document["config"],
        "layers": [],
        "subject": {"mediaType": root.media_type, "digest": root.digest, "size": len(root.content)},
        "annotations": {SUPERSEDED_BY: mark},
    }
    client.put_referrer(PATH, root.digest, StoredManifest(json.dumps(document).encode(), MANIFEST))

    assert successors(stage) == {tag: ""}
    assert audit(stage).code == 0


def test_a_registry_that_lists_no_referrers_gets_them_as_a_tag(stage: Stage) -> None:
    stage.registry.has_referrers = False
    first = latest = stage.build()
    for name in ("patch-3", "patch-4"):
        stage.clone.commit(name)
        latest = stage.build()
        assert supersede(stage).code == 0
    marks = stage.registry.tags[PATH][first].removeprefix("sha256:")
    index = stage.registry.get_manifest(PATH, f"sha256-{marks}")
    assert index is not None

    named = [each["annotations"]["dev.fleet.build/superseded-by"] for each in json.loads(index.content)["manifests"]]
    assert named == ["v0.20.1002", "v0.20.1003"]
    assert successors(stage) == {first: latest, "v0.20.1002": latest, latest: ""}
    assert audit(stage).code == 0


# --- the whole story --------------------------------------------------------------------------------------------------


def test_builds_bridge_until_upstream_releases(stage: Stage) -> None:
    clone = stage.clone
    fix = clone.head
    assert [stage.build(), stage.build("--rebuild-reason=base")] == ["v0.20.1001", "v0.20.1002"]
    clone.checkout("main")
    day = "--built-at=2021-11-01T12:00:00Z"
    assert [stage.build(day), stage.build(day, "--rebuild-reason=base")] == [SNAPSHOT, "v0.0.2021110102"]
    assert all(stage.verify(f"{stage.target}:{tag}").code == 0 for tag in stage.registry.tags[PATH])

    clone.git("push", "--quiet", "--force", "origin", "main:refs/tags/v0.20.1002")
    assert stage.verify(f"{stage.target}:v0.20.1002").code == 5
    assert advise(stage, fix).startswith("v0.20.1001: ")
    clone.checkout("release-0.20")
    clone.git("tag", "v0.20.11", "HEAD")
    clone.git("push", "--quiet", "origin", "v0.20.11")
    assert advise(stage, fix).startswith("v0.20.11: ")

"""Images of claimed tags are published to a registry and verified, through `fleet release publish` and `verify`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.release.images import INDEX, MANIFEST, write_layout
from tests.unit.release.registry_server import Manifest, a_registry
from tests.unit.release.stage import PATH, TAG, Stage


@pytest.fixture
def published(stage: Stage) -> tuple[Stage, dict[str, str]]:
    base = f"--base-image=registry.example.com/python@sha256:{'1' * 64}"
    labels = stage.claim(base, "--upstream-pr=https://example.com/7")
    layout = write_layout(stage.folder / "layout", labels, platforms=2)
    ran = stage.publish(f"{layout}={stage.target}")
    assert ran.code == 0, ran.err
    return stage, labels


def push(stage: Stage, labels: Mapping[str, str], name: str, *, content: bytes = b"layer") -> None:
    """Another client replaces what the tag names."""
    layout = write_layout(stage.folder / name, labels, content=content)
    for blob in (layout / "blobs" / "sha256").iterdir():
        stage.registry.blobs[PATH][f"sha256:{blob.name}"] = blob.read_bytes()
    root = json.loads((layout / "index.json").read_text())["manifests"][0]
    manifest = Manifest(stage.registry.blobs[PATH][root["digest"]], root["mediaType"])
    stage.registry.put_manifest(PATH, TAG, manifest)


# --- publishing -------------------------------------------------------------------------------------------------------


def test_an_image_is_pushed_by_digest_before_its_tag(published: tuple[Stage, dict[str, str]]) -> None:
    registry = published[0].registry
    digest = registry.tags[PATH][TAG]

    assert registry.writes[-2:] == [f"manifest {digest}", f"manifest {TAG}"]
    assert registry.manifests[PATH][digest].media_type == INDEX
    assert list(registry.tags[PATH]) == [TAG]
    assert len(registry.writes) == len(set(registry.writes)), "the layer of both platforms is pushed once"


def test_publishing_prints_what_can_be_pulled(stage: Stage) -> None:
    layout = write_layout(stage.folder / "layout", stage.claim())
    ran = stage.publish(f"{layout}={stage.target}")

    assert ran.out == f"{stage.image}@{stage.registry.tags[PATH][TAG]}\n"


def test_a_tag_covers_all_images_of_a_build(stage: Stage) -> None:
    labels = stage.claim()
    targets = [f"{stage.registry.host}/bridge/{name}" for name in ("scheduler", "agent")]
    images = [
        f"{write_layout(stage.folder / target[-5:], labels, content=target.encode())}={target}" for target in targets
    ]

    assert stage.publish(*images).code == 0
    assert [stage.verify(f"{target}:{TAG}").code for target in targets] == [0, 0]


def test_an_interrupted_publication_can_be_repeated(stage: Stage) -> None:
    layout = write_layout(stage.folder / "layout", stage.claim())
    assert stage.publish(f"{layout}={stage.target}").code == 0
    del stage.registry.tags[PATH][TAG]

    assert stage.publish(f"{layout}={stage.target}").code == 0
    assert stage.verify().code == 0


def test_an_image_is_copied_from_another_registry_by_its_digest(stage: Stage) -> None:
    layout = write_layout(stage.folder / "layout", stage.claim(), platforms=2)
    staging = f"{stage.registry.host}/staging/fleet"
    assert stage.publish(f"{layout}={staging}").code == 0
    digest = stage.registry.tags["staging/fleet"][TAG]

    assert stage.publish(f"{staging}@{digest}={stage.target}").code == 0
    assert stage.registry.tags[PATH][TAG] == digest


def test_a_builder_may_leave_empty_labels_out(stage: Stage) -> None:
    labels = {name: value for name, value in stage.claim().items() if value}
    layout = write_layout(stage.folder / "layout", labels)

    assert len(labels) == 9
    assert stage.publish(f"{layout}={stage.target}").code == 0
    assert stage.verify().code == 0


def test_of_two_publications_of_a_tag_the_first_counts(stage: Stage) -> None:
    """The other process records its digest on the remote a moment before this one."""
    layout = write_layout(stage.folder / "layout", stage.claim())
    hook = stage.folder / "remote.git" / "hooks" / "update"
    hook.write_text(
        "#!/bin/sh\nunset GIT_QUARANTINE_PATH\ngit update-ref $1 $(git rev-parse refs/heads/main)\n", encoding="utf-8"
    )
    hook.chmod(0o755)
    ran = stage.publish(f"{layout}={stage.target}")

    assert (ran.code, ran.out) == (3, "")
    assert "is being published by another process" in ran.err
    assert TAG not in stage.registry.tags[PATH]


def refused(stage: Stage, *images: str, **options: str) -> str:
    before, pushes = dict(stage.registry.tags[PATH]), len(stage.registry.writes)
    ran = stage.publish(*images, **options)
    assert (ran.code, ran.out) == (3, ""), ran.err
    assert (stage.registry.tags[PATH], len(stage.registry.writes)) == (before, pushes)
    return ran.err


def test_a_tag_is_never_moved(published: tuple[Stage, dict[str, str]]) -> None:
    stage, labels = published
    layout = write_layout(stage.folder / "other", labels, content=b"other")

    assert "exists with sha256:" in refused(stage, f"{layout}={stage.target}")


def test_a_recorded_tag_is_not_published_again_after_its_removal(published: tuple[Stage, dict[str, str]]) -> None:
    stage, labels = published
    layout = write_layout(stage.folder / "other", labels, content=b"other")
    stage.registry.tags[PATH].clear()

    assert "was published with sha256:" in refused(stage, f"{layout}={stage.target}")


def test_G_01_an_image_of_another_tag_is_not_published_under_a_new_one(published: tuple[Stage, dict[str, str]]) -> None:
    """Retagging is refused: the labels say what an image was built as."""
    stage, labels = published
    stage.claim("--rebuild-reason=again")
    layout = write_layout(stage.folder / "other", labels)

    assert f"version of {layout}" in refused(stage, f"{layout}={stage.target}", tag="v0.20.1002")


@pytest.mark.parametrize("tag", ["v0.0.0", "v0.20.10", "v0.20.1000", "v0.34.4-rc"])
def test_G_01_only_tags_of_this_tool_are_published(stage: Stage, tag: str) -> None:
    layout = write_layout(stage.folder / "layout", {})

    assert "only claimed snapshots and branch fixes are published" in refused(
        stage, f"{layout}={stage.target}", tag=tag
    )


def test_a_tag_is_claimed_before_it_is_published(stage: Stage) -> None:
    layout = write_layout(stage.folder / "layout", {})

    assert "is not claimed" in refused(stage, f"{layout}={stage.target}")


def test_G_06_the_upstream_registry_as_target_of_a_publication(stage: Stage) -> None:
    layout = write_layout(stage.folder / "layout", stage.claim())

    assert "is in the upstream registry" in refused(stage, f"{layout}={stage.target}", upstream=stage.registry.host)


def test_G_06_sources_of_mixed_registry_class(stage: Stage) -> None:
    layout = write_layout(stage.folder / "layout", stage.claim())
    other = f"{stage.registry.host}/upstream/fleet@sha256:{'0' * 64}={stage.target}-agent"
    text = refused(stage, f"{layout}={stage.target}", other, upstream=f"{stage.registry.host}/upstream")

    assert "the sources are of different classes" in text


def test_upstream_images_are_not_mirrored(stage: Stage) -> None:
    stage.claim()
    source = f"{stage.registry.host}/upstream/fleet@sha256:{'0' * 64}={stage.target}"

    assert "never mirrored" in refused(stage, source, upstream=f"{stage.registry.host}/upstream")


# --- verifying --------------------------------------------------------------------------------------------------------


def test_a_published_image_is_verified(published: tuple[Stage, dict[str, str]]) -> None:
    ran = published[0].verify()

    assert (ran.code, "FAILED" in ran.out) == (0, False)
    assert ran.out.count("ok ") == 22


# That each label is compared, the number of checks above says.
@pytest.mark.parametrize("name", ["org.opencontainers.image.revision", "dev.fleet.build/upstream-pr"])
def test_G_07_an_altered_label_fails(published: tuple[Stage, dict[str, str]], name: str) -> None:
    stage, labels = published
    push(stage, {**labels, name: "altered"}, "altered")
    altered = stage.failures()
    push(stage, {key: value for key, value in labels.items() if key != name}, "without")

    assert [line for line in altered if f"label {name}:" in line and "'altered' in the image" in line]
    assert [line for line in stage.failures() if f"label {name}:" in line and "'missing' in the image" in line]


def test_G_07_another_image_with_the_same_labels_fails(published: tuple[Stage, dict[str, str]]) -> None:
    stage, labels = published
    push(stage, labels, "other", content=b"other")

    (failure,) = stage.failures()
    assert "digest: tag moved" in failure


@pytest.mark.parametrize("target", ["HEAD~1", "v0.20.10", "origin/main"])
def test_G_07_a_moved_git_tag_fails(published: tuple[Stage, dict[str, str]], target: str) -> None:
    """With its message, so that only its commit is another one."""
    stage, clone = published[0], published[0].clone
    message = clone.git("tag", "-l", "--format=%(contents)", TAG)
    clone.git("fetch", "--quiet")
    clone.git("tag", "--force", "-a", "-m", message, TAG, f"{target}^{{commit}}")
    clone.git("push", "--quiet", "--force", "origin", TAG)

    failures = stage.failures()
    assert [line for line in failures if "revision: the git tag names" in line]
    assert [line for line in failures if "git tag: tag moved" in line]


def test_G_07_a_git_tag_that_is_made_again_on_the_same_commit_fails(published: tuple[Stage, dict[str, str]]) -> None:
    stage, clone = published[0], published[0].clone
    message = clone.git("tag", "-l", "--format=%(contents)", TAG)
    clone.git("tag", "--force", "-a", "-m", f"{message}\nagain", TAG, f"{TAG}^{{commit}}")
    clone.git("push", "--quiet", "--force", "origin", TAG)

    (failure,) = stage.failures()
    assert "git tag: tag moved" in failure


def test_G_07_a_git_tag_that_is_gone_or_not_annotated_fails(published: tuple[Stage, dict[str, str]]) -> None:
    stage, clone = published[0], published[0].clone
    clone.git("push", "--quiet", "--force", "origin", f"HEAD:refs/tags/{TAG}")
    (light,) = stage.failures()
    clone.git("push", "--quiet", "--delete", "origin", TAG)
    (gone,) = stage.failures()

    assert "not annotated" in light
    assert f"the remote has no tag {TAG}" in gone


def test_G_07_a_branch_that_lost_the_commit_fails(published: tuple[Stage, dict[str, str]]) -> None:
    stage = published[0]
    stage.clone.git("push", "--quiet", "--force", "origin", "HEAD~1:release-0.20")

    (failure,) = stage.failures()
    assert "branch:" in failure
    assert "is not on release-0.20" in failure


def test_G_07_a_moved_base_fails(published: tuple[Stage, dict[str, str]]) -> None:
    """The base is taken out of the history of the build, and the count of patches is another one then."""
    stage = published[0]
    stage.clone.git("push", "--quiet", "--force", "origin", "HEAD~1:refs/tags/v0.20.10")
    changed = stage.failures()
    stage.clone.git("push", "--quiet", "--force", "origin", "main:refs/tags/v0.20.10")

    assert [line.partition(":")[0] for line in changed] == ["FAILED  patch count", "FAILED  patches"]
    assert [line for line in stage.failures() if "base: v0.20.10 is no ancestor" in line]


def test_G_07_a_snapshot_of_another_day_fails(stage: Stage) -> None:
    """A tag that was made by hand, with the labels of a build of the day before."""
    stage.clone.checkout("main")
    labels = stage.claim("--built-at=2021-11-01T12:00:00Z")
    values = "\n".join(f"{key}: {value}" for key, value in labels.items())
    forged = values.replace("v0.0.2021110101", "v0.0.2021110201")
    stage.clone.git("tag", "-a", "-m", forged, "v0.0.2021110201")
    stage.clone.git("push", "--quiet", "origin", "v0.0.2021110201")
    layout = write_layout(stage.folder / "layout", {**labels, "org.opencontainers.image.version": "v0.0.2021110201"})
    assert stage.publish(f"{layout}={stage.target}", tag="v0.0.2021110201").code == 0

    (failure,) = stage.failures(f"{stage.target}:v0.0.2021110201")
    assert "created: built on 2021-11-01, but the tag has 2021-11-02" in failure


def test_G_07_a_base_that_the_tag_does_not_name_fails(stage: Stage) -> None:
    """All of it is true but that a fix of 0.20.10 was cut on 0.20.0."""
    labels = stage.claim()
    patches = stage.clone.git("rev-list", "--reverse", "v0.20.0..HEAD").split()
    labels["dev.fleet.build/upstream-base"] = "v0.20.0"
    labels["dev.fleet.build/patch-count"] = str(len(patches))
    labels["dev.fleet.build/patches"] = " ".join(sha[:12] for sha in patches)
    message = "\n".join(f"{name}: {value}" for name, value in labels.items())
    stage.clone.git("tag", "--force", "-a", "-m", message, TAG)
    stage.clone.git("push", "--quiet", "--force", "origin", TAG)
    assert stage.publish(f"{write_layout(stage.folder / 'layout', labels)}={stage.target}").code == 0

    (failure,) = stage.failures()
    assert "base: v0.20.0 is not the base of v0.20.1001" in failure


def test_an_image_that_was_pushed_by_hand_fails(stage: Stage) -> None:
    push(stage, stage.claim(), "layout")

    (failure,) = stage.failures()
    assert "no record" in failure


def test_an_upstream_tag_is_not_verified_here(stage: Stage) -> None:
    (failure,) = stage.failures(f"{stage.target}:v0.20.10")

    assert "v0.20.10 is a release tag" in failure


# --- registries -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme,expected", [("Bearer", "issued no token"), ("Basic", "wants credentials")])
def test_a_registry_is_asked_with_the_credentials_of_a_login(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, scheme: str, expected: str
) -> None:
    stage.registry.password, stage.registry.is_basic = "user:secret", scheme == "Basic"
    layout = write_layout(stage.folder / "layout", stage.claim())
    refused = stage.publish(f"{layout}={stage.target}")
    auth = base64.b64encode(b"user:secret").decode()
    content: dict[str, Any] = {"auths": {stage.registry.host: {"auth": auth}}}
    (stage.folder / "auth.json").write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(stage.folder / "auth.json"))

    assert refused.code == 2
    assert expected in refused.err
    assert stage.publish(f"{layout}={stage.target}").code == 0
    assert stage.verify().code == 0


def test_a_token_does_not_follow_a_redirection_to_another_server(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    auth = base64.b64encode(b"user:secret").decode()
    content = {"auths": {stage.registry.host: {"auth": auth}}}
    (stage.folder / "auth.json").write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(stage.folder / "auth.json"))
    stage.registry.password = "user:secret"
    assert stage.publish(f"{write_layout(stage.folder / 'layout', stage.claim())}={stage.target}").code == 0
    with a_registry() as store:
        store.blobs = stage.registry.blobs
        stage.registry.store = store.host

        assert stage.verify().code == 0
        assert store.authorizations == [None]
        assert stage.registry.authorizations[-1] is not None


def test_a_registry_that_cannot_be_reached_is_named(stage: Stage) -> None:
    ran = stage.verify("127.0.0.1:1/bridge/fleet:v0.20.1001")

    assert (ran.code, ran.out) == (2, "")
    assert "127.0.0.1:1 cannot be reached" in ran.err


@pytest.mark.parametrize(
    "content,expected",
    [
        (b"<html>log in</html>", "is no JSON object"),
        (b"[]", "is no JSON object"),
        (b"{}", "names content without a digest"),
        (b'{"config": {"digest": "../../etc/passwd"}}', "names content without a digest"),
        (b'{"manifests": [1]}', "names content without a digest"),
    ],
)
def test_what_is_no_manifest_is_named(published: tuple[Stage, dict[str, str]], content: bytes, expected: str) -> None:
    stage = published[0]
    kind = INDEX if b"manifests" in content else MANIFEST
    stage.registry.put_manifest(PATH, TAG, Manifest(content, kind))
    ran = stage.verify()

    assert (ran.code, ran.out) == (2, "")
    assert expected in ran.err


def test_a_registry_on_this_machine_is_not_reached_through_a_proxy(
    published: tuple[Stage, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)

    assert published[0].verify().code == 0


@pytest.mark.parametrize(
    "name,expected",
    [
        ("fleet:v0.20.1001", "should begin with the host of a registry"),
        ("registry.example.com/Fleet:v0.20.1001", "should be HOST/PATH in lower case"),
        ("registry.example.com/fleet", "should have a tag or a digest"),
        ("registry.example.com/fleet@sha256:1", "the digest should be sha256"),
        ("registry.example.com/fleet:latest", "is no release tag"),
    ],
)
def test_a_name_that_is_no_image_is_explained(stage: Stage, name: str, expected: str) -> None:
    ran = stage.verify(name)

    assert (ran.code, ran.out) == (2, "")
    assert expected in ran.err


@pytest.mark.parametrize(
    "name,expected",
    [
        ("layout", "should be SOURCE=TARGET"),
        ("registry.example.com/fleet:v1.0.0=registry.example.com/bridge", "HOST/PATH@sha256"),
    ],
)
def test_a_source_that_is_no_image_is_explained(stage: Stage, name: str, expected: str) -> None:
    stage.claim()
    ran = stage.publish(name)

    assert (ran.code, ran.out) == (2, "")
    assert expected in ran.err


def test_a_folder_that_holds_other_content_is_refused(stage: Stage) -> None:
    layout = write_layout(stage.folder / "layout", stage.claim())
    for blob in (layout / "blobs" / "sha256").iterdir():
        blob.write_bytes(blob.read_bytes() + b" ")
    ran = stage.publish(f"{layout}={stage.target}")

    assert ran.code == 2
    assert "has other content" in ran.err

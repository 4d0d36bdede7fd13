"""Records of publications: for each image of a tag a ref on the git remote that names the digest.

Like tags they are created and never moved, so that a tag which a registry has moved is noticed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fleet.release.git import RECORDS, RemoteRefs, Repository, TaggedCommit
from fleet.release.oci.references import ImageRepository

_PUBLISHED: Final = f"{RECORDS}published/"
_DIGEST: Final = "digest"
_TAG_OBJECT: Final = "tag-object"


class PublicationRecord(NamedTuple):
    digest: str
    tag_object: str


def find_record(repository: Repository, refs: RemoteRefs, tag: str, image: ImageRepository) -> PublicationRecord | None:
    sha = refs.by_name.get(_name_ref(tag, image))
    record = repository.read_tag_object(sha) if sha else None
    if record is None:
        return None
    values = dict(line.split(": ", 1) for line in record.message.splitlines() if ": " in line)
    return PublicationRecord(values.get(_DIGEST, ""), values.get(_TAG_OBJECT, ""))


def list_published(refs: RemoteRefs) -> set[str]:
    """Tags with at least one image."""
    names = (name for name in refs.by_name if name.startswith(_PUBLISHED))
    return {name.removeprefix(_PUBLISHED).partition("/")[0] for name in names}


def create_record(repository: Repository, tagged: TaggedCommit, image: ImageRepository, digest: str) -> bool:
    """Whether it was created; False: there is a record already."""
    message = f"{tagged.tag.text} of {image}\n\n{_DIGEST}: {digest}\n{_TAG_OBJECT}: {tagged.object}"
    sha = repository.write_tag_object(f"published/{tagged.tag.text}", tagged.commit, message)
    return repository.create_remote_ref(_name_ref(tagged.tag.text, image), sha)


def _name_ref(tag: str, image: ImageRepository) -> str:
    return f"{_PUBLISHED}{tag}/{image.host.replace(':', '_').strip('[]')}/{image.path}"

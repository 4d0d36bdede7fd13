"""Client of the distribution API of OCI registries: tags, manifests, blobs and referrers.

Content is compared with its digest on the way in and out. Registries on this machine are reached without TLS.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import IO, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urljoin, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from fleet import __version__
from fleet.errors import FleetError
from fleet.release.oci.credentials import find_credentials
from fleet.release.oci.references import DIGEST, ImageRepository, is_loopback

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
INDEXES: Final = (INDEX, "application/vnd.docker.distribution.manifest.list.v2+json")
ACCEPTED: Final = (MANIFEST, "application/vnd.docker.distribution.manifest.v2+json", *INDEXES)
_TIMEOUT: Final = 60.0
_PAGE: Final = 100
_MOST_PAGES: Final = 1000
_MAX_DOCUMENT: Final = 8 * 2**20
_CHALLENGE: Final = re.compile(r'(\w+)="([^"]*)"')


class RegistryError(FleetError):
    pass


class RegistryUnreachable(RegistryError):
    pass


class ImageMissing(RegistryError):
    pass


@dataclass(frozen=True, slots=True)
class StoredManifest:
    content: bytes
    media_type: str

    @property
    def digest(self) -> str:
        return compute_digest(self.content)

    @property
    def document(self) -> dict[str, Any]:
        return parse_object(self.content, f"the manifest {self.digest}")


def parse_object(content: bytes, name: str) -> dict[str, Any]:
    """A server in front of the registry may answer anything, such as a page that asks for a login."""
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise RegistryError(f"{name} is no JSON object")
    return document


def list_entries(index: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Descriptors of manifests."""
    entries = index.get("manifests") or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise RegistryError(f"{name} names content without a digest")
    return entries


def read_annotation(descriptor: Mapping[str, Any], name: str) -> Any:
    annotations = descriptor.get("annotations")
    return annotations.get(name) if isinstance(annotations, dict) else None


def compute_digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class RegistryClient:
    def __init__(self, host: str) -> None:
        self.host = host
        self._base = f"{'http' if is_loopback(host) else 'https'}://{host}"
        # A proxy cannot reach this machine's own servers.
        self._opener = build_opener(*([ProxyHandler({})] if is_loopback(host) else []))
        self._authorization: dict[str, str] = {}
        """By scope, because registries issue tokens per repository."""

    # --- reading ----------------------------------------------------------------------------------------------------

    def list_repositories(self, prefix: str = "") -> list[str]:
        paths = self._list_pages("/v2/_catalog", "repositories", scope="registry:catalog:*")
        return sorted(path for path in paths if not prefix or path == prefix or path.startswith(f"{prefix}/"))

    def list_tags(self, path: str) -> list[str]:
        """A repository that does not exist has none."""
        try:
            return sorted(self._list_pages(f"/v2/{path}/tags/list", "tags", scope=_pull(path)))
        except ImageMissing:
            return []

    def get_manifest(self, path: str, version: str) -> StoredManifest:
        headers = {"Accept": ", ".join(ACCEPTED)}
        with self._open(
            "GET", f"/v2/{path}/manifests/{quote(version, safe=':')}", scope=_pull(path), headers=headers
        ) as answer:
            content = _read_document(answer)
            manifest = StoredManifest(content, answer.headers.get("Content-Type", "").partition(";")[0])
        if DIGEST.fullmatch(version) and manifest.digest != version:
            raise RegistryError(f"{self.host}/{path}@{version} has other content: {manifest.digest}")
        return manifest

    def get_document(self, path: str, digest: str) -> dict[str, Any]:
        """A blob that holds a JSON object."""
        with closing(self.open_blob(path, digest)) as stream:
            content = _read_document(stream)
        if compute_digest(content) != digest:
            raise RegistryError(f"the blob {digest} of {self.host}/{path} has other content")
        return parse_object(content, f"the blob {digest} of {self.host}/{path}")

    def open_blob(self, path: str, digest: str) -> IO[bytes]:
        stream: IO[bytes] = self._open("GET", f"/v2/{path}/blobs/{digest}", scope=_pull(path))
        return stream

    def list_referrers(self, path: str, digest: str) -> list[dict[str, Any]]:
        """Descriptors of the manifests that have the digest as their subject."""
        try:
            with self._open("GET", f"/v2/{path}/referrers/{digest}", scope=_pull(path)) as answer:
                name = f"the list of referrers of {self.host}/{path}"
                return list_entries(parse_object(_read_document(answer), name), name)
        except ImageMissing:
            return self._list_tagged_referrers(path, digest)

    def _list_tagged_referrers(self, path: str, digest: str) -> list[dict[str, Any]]:
        try:
            return list_entries(self.get_manifest(path, _name_referrers(digest)).document, "the list of referrers")
        except ImageMissing:
            return []

    # --- writing ----------------------------------------------------------------------------------------------------

    def has_blob(self, path: str, digest: str) -> bool:
        try:
            self._open("HEAD", f"/v2/{path}/blobs/{digest}", scope=_push(path)).close()
        except ImageMissing:
            return False
        return True

    def upload_blob(self, path: str, digest: str, content: IO[bytes], size: int) -> None:
        with self._open("POST", f"/v2/{path}/blobs/uploads/", scope=_push(path), data=b"") as answer:
            location = urljoin(answer.url, answer.headers.get("Location", ""))
        separator = "&" if urlsplit(location).query else "?"
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        target = f"{location}{separator}{urlencode({'digest': digest})}"
        self._open("PUT", target, scope=_push(path), data=content, headers=headers).close()

    def put_manifest(self, path: str, version: str, manifest: StoredManifest) -> Mapping[str, str]:
        """The headers of the answer."""
        headers = {"Content-Type": manifest.media_type}
        address = f"/v2/{path}/manifests/{quote(version, safe=':')}"
        with self._open("PUT", address, scope=_push(path), data=manifest.content, headers=headers) as answer:
            stored = answer.headers.get("Docker-Content-Digest", manifest.digest)
        if stored != manifest.digest:
            raise RegistryError(f"{self.host}/{path} stored {stored} instead of {manifest.digest}")
        return dict(answer.headers)

    def put_referrer(self, path: str, digest: str, referrer: StoredManifest) -> None:
        """A manifest that has `digest` as its subject. Registries that list none of them get the list as a tag, as the
        specification of distribution has it for clients."""
        headers = self.put_manifest(path, referrer.digest, referrer)
        if "oci-subject" in {name.lower() for name in headers}:
            return
        document = referrer.document
        descriptor = {"mediaType": referrer.media_type, "digest": referrer.digest, "size": len(referrer.content)}
        descriptor |= {name: document[name] for name in ("artifactType", "annotations") if name in document}
        others = [each for each in self._list_tagged_referrers(path, digest) if each.get("digest") != referrer.digest]
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [*others, descriptor]}
        self.put_manifest(path, _name_referrers(digest), StoredManifest(json.dumps(index).encode(), INDEX))

    # --- requests ---------------------------------------------------------------------------------------------------

    def _list_pages(self, address: str, field: str, *, scope: str) -> Iterator[str]:
        following = urljoin(self._base, f"{address}?n={_PAGE}")
        for _ in range(_MOST_PAGES):
            if not following.startswith(f"{self._base}/"):
                raise RegistryError(f"{self.host} continues its list elsewhere: {following}")
            with self._open("GET", following, scope=scope) as answer:
                page = parse_object(_read_document(answer), f"the answer of {self.host} to {address}")
                link = re.search(r'<([^>]+)>\s*;\s*rel="?next"?', answer.headers.get("Link", ""))
                following = urljoin(answer.url, link[1]) if link else ""
            yield from page.get(field) or ()
            if not following:
                return
        raise RegistryError(f"{self.host} lists more than {_MOST_PAGES} pages under {address}")

    def _open(
        self,
        method: str,
        address: str,
        *,
        scope: str,
        data: bytes | IO[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        url = urljoin(self._base, address)
        try:
            return self._send(method, url, scope, data, headers or {})
        except HTTPError as error:
            if error.code != http.client.UNAUTHORIZED or scope in self._authorization:
                raise self._describe(method, url, error) from None
            error.close()
            self._authorization[scope] = self._authorize(error.headers.get("WWW-Authenticate", ""), scope)
            try:
                return self._send(method, url, scope, data, headers or {})
            except HTTPError as second:
                raise self._describe(method, url, second) from None

    def _send(
        self, method: str, url: str, scope: str, data: bytes | IO[bytes] | None, headers: Mapping[str, str]
    ) -> Any:
        request = Request(url, data=data, headers={**headers, "User-Agent": f"fleet/{__version__}"}, method=method)
        if scope in self._authorization and url.startswith(f"{self._base}/"):
            # Blobs are often redirected to a store of another owner, which must not see the token.
            request.add_unredirected_header("Authorization", self._authorization[scope])
        try:
            return self._opener.open(request, timeout=_TIMEOUT)
        except HTTPError:
            raise
        except (URLError, http.client.HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            raise RegistryUnreachable(f"{self.host} cannot be reached: {reason}") from None

    def _authorize(self, challenge: str, scope: str) -> str:
        scheme, _, rest = challenge.partition(" ")
        credentials = find_credentials(self.host)
        basic = "" if credentials is None else base64.b64encode(credentials.encode()).decode()
        if scheme.lower() == "basic" and basic:
            return f"Basic {basic}"
        parameters = dict(_CHALLENGE.findall(rest))
        realm = parameters.get("realm", "")
        issuer = urlsplit(realm)
        if scheme.lower() != "bearer" or (issuer.scheme != "https" and not is_loopback(issuer.netloc)):
            raise RegistryError(f"{self.host} wants credentials: log in with your container tool first")
        query = {"service": parameters.get("service", ""), "scope": parameters.get("scope", scope)}
        request = Request(f"{realm}?{urlencode(query)}")
        if basic:
            request.add_unredirected_header("Authorization", f"Basic {basic}")
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as answer:
                token = parse_object(_read_document(answer), f"the token of {issuer.netloc}")
        except (URLError, OSError) as error:
            if isinstance(error, HTTPError):
                error.close()
            raise RegistryError(f"{self.host} issued no token for {scope}: {error}") from None
        return f"Bearer {token.get('token') or token.get('access_token', '')}"

    def _describe(self, method: str, url: str, error: HTTPError) -> RegistryError:
        with closing(error):
            body = error.read(4096).decode(errors="replace")
        try:
            reason = "; ".join(str(each.get("message") or each.get("code")) for each in json.loads(body)["errors"])
        except (ValueError, KeyError, TypeError, AttributeError):
            reason = str(error.reason)
        kind = ImageMissing if error.code == http.client.NOT_FOUND else RegistryError
        return kind(f"{self.host}: {method} {urlsplit(url).path}: {error.code} {reason}")


def open_client(repository: ImageRepository) -> RegistryClient:
    return RegistryClient(repository.host)


def _read_document(stream: Any) -> bytes:
    content: bytes = stream.read(_MAX_DOCUMENT + 1)
    if len(content) > _MAX_DOCUMENT:
        raise RegistryError(f"a document of a registry is larger than {_MAX_DOCUMENT} bytes")
    return content


def _name_referrers(digest: str) -> str:
    return digest.replace(":", "-")


def _pull(path: str) -> str:
    return f"repository:{path}:pull"


def _push(path: str) -> str:
    return f"repository:{path}:pull,push"

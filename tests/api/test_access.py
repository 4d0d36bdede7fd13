"""Authentication, authorization, and redaction of what the caller may not read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.datastructures import URL
from starlette.requests import Request

from api.app import create_app
from api.auth.access import AccessRequest, Caller, CallerAuthorizer, HubAuthorizer, operator_access
from api.auth.permissions import Permissions
from fleet.errors import Unreachable
from fleet.settings import load_settings
from tests.api.stage import (
    ADMIN,
    AUTHOR,
    BINDINGS,
    HIDDEN,
    NEW,
    OPERATOR,
    OVERSEER,
    RBAC,
    READER,
    ROLES,
    STRANGER,
    TOKENS,
    Running,
    Stage,
    a_hub_with,
    alone,
    live_beside,
    staged,
)
from tests.fake_hub import FaultyApi, in_turn
from tests.faults.hub_api import HubApi
from tests.faults.scripted import Down
from tests.faults.virtual import VirtualClock, virtual

OK, UNKNOWN, FORBIDDEN, ABSENT = 200, 401, 403, 404

PLACEMENT, OTHER, NAMESPACED = "/v1/placements/-/web", "/v1/placements/-/big", "/v1/placements/shop/cache"
EVERYTHING, CONFIG, ONE_STREAM = "/v1/decisions?since=0", "/v1/config", "/v1/decisions?since=0&placement=web"

MATRIX: dict[str, dict[str, int]] = {
    PLACEMENT: {ADMIN: OK, OPERATOR: OK, AUTHOR: OK, READER: OK, STRANGER: FORBIDDEN},
    OTHER: {ADMIN: OK, OPERATOR: OK, AUTHOR: OK, READER: FORBIDDEN, STRANGER: FORBIDDEN},
    NAMESPACED: {ADMIN: OK, OPERATOR: OK, AUTHOR: FORBIDDEN, READER: FORBIDDEN, STRANGER: FORBIDDEN},
    "/v1/placements/-/nowhere": {ADMIN: ABSENT, AUTHOR: ABSENT, READER: FORBIDDEN, STRANGER: FORBIDDEN},
    "/v1/placements": {ADMIN: OK, OPERATOR: OK, AUTHOR: OK, READER: FORBIDDEN, STRANGER: FORBIDDEN},
    "/v1/clusters": {ADMIN: OK, READER: OK, STRANGER: OK},
    "/v1/clusters/ams-1": {ADMIN: OK, READER: OK, STRANGER: FORBIDDEN},
    "/v1/clusters/dub-1": {ADMIN: OK, READER: FORBIDDEN, STRANGER: FORBIDDEN},
    "/v1/bindings": {ADMIN: OK, OPERATOR: OK, AUTHOR: FORBIDDEN, READER: FORBIDDEN},
    "/v1/bindings?placement=web": {ADMIN: OK, READER: OK, STRANGER: FORBIDDEN},
    "/v1/profiles": {ADMIN: OK, READER: OK, STRANGER: OK},
    "/v1/version": {ADMIN: OK, READER: OK, STRANGER: OK},
    CONFIG: {ADMIN: OK, OPERATOR: OK, AUTHOR: FORBIDDEN, READER: FORBIDDEN, STRANGER: FORBIDDEN},
    EVERYTHING: {ADMIN: OK, OPERATOR: OK, AUTHOR: FORBIDDEN, READER: FORBIDDEN, STRANGER: FORBIDDEN},
    ONE_STREAM: {ADMIN: OK, OPERATOR: OK, AUTHOR: OK, READER: OK, STRANGER: FORBIDDEN},
    "/metrics": {ADMIN: OK, OPERATOR: OK, READER: FORBIDDEN},
}
CASES = [(path, token, code) for path, codes in MATRIX.items() for token, code in codes.items()]


@pytest.mark.parametrize("path,token,code", CASES, ids=[f"{path} {token}" for path, token, _ in CASES])
def test_rights_decide_what_is_answered(running: Running, path: str, token: str, code: int) -> None:
    assert running.call(running.stage.get(path, token)).status_code == code


@pytest.mark.parametrize("path", [*MATRIX, "/v1/nothing"])
def test_nobody_is_let_in_without_a_token_or_with_an_unknown_one(running: Running, path: str) -> None:
    for token in (None, "made-up", ""):
        answer = running.call(running.stage.get(path, token))

        if path == "/v1/nothing":
            assert answer.status_code == ABSENT
        else:
            assert answer.status_code == UNKNOWN
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.json()["field"] == "Authorization"
            assert answer.json()["next"]


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer ", "admin-token", "Bearer " + "x" * 20_000])
def test_only_a_bearer_token_of_reasonable_length_will_do(running: Running, header: str) -> None:
    answer = running.call(running.stage.get(PLACEMENT, None, Authorization=header))

    assert answer.status_code == UNKNOWN
    assert len(answer.content) < 1000


@pytest.mark.parametrize("path", ["/livez", "/healthz", "/readyz", "/openapi.json"])
def test_probes_and_the_description_are_for_everybody(running: Running, path: str) -> None:
    assert running.call(running.stage.get(path, None)).status_code == OK


@staged
async def test_no_answer_contains_a_token(stage: Stage) -> None:
    for path in MATRIX:
        for token in (*TOKENS, "made-up-token"):
            answer = await stage.get(path, token)

            assert not [one for one in (*TOKENS, "made-up-token") if one in answer.text], path


@staged
async def test_a_refusal_says_which_right_is_missing(stage: Stage) -> None:
    problem = (await stage.get(OTHER, READER)).json()

    assert problem["detail"] == "rosa may not get clusterresourceplacements.placement.kubernetes-fleet.io big"
    assert problem["next"] == (
        "ask an administrator of the hub for the right to get clusterresourceplacements.placement.kubernetes-fleet.io "
        "big; the chart's role fleet-viewer has it: `kubectl create clusterrolebinding fleet-viewer-rosa "
        "--clusterrole=fleet-viewer --user=rosa`"
    )


@staged
async def test_other_origins_are_told_nothing(stage: Stage) -> None:
    answer = await stage.get(PLACEMENT, Origin="https://elsewhere.example")

    assert not [name for name in answer.headers if name.startswith("access-control")]


# --- the hub is asked, but not too often ------------------------------------------------------------------------------


def reviews(hub: HubApi) -> int:
    return sum("reviews" in one.path for one in hub.requests)


@virtual
async def test_the_hub_is_asked_once_in_a_while_however_many_questions_there_are() -> None:
    hub, clock = a_hub_with(TOKENS), VirtualClock()
    access = HubAuthorizer(hub, clock=clock)

    async def ask() -> Any:
        caller = await access.authenticate(ADMIN)
        assert caller is not None
        return await access.is_allowed(caller, operator_access("get", "/v1/snapshot"))

    assert [await ask(), await ask()] == [True, True]
    assert reviews(hub) == 2
    await clock.sleep(11)
    assert await ask()
    assert reviews(hub) == 4


@alone
async def test_one_cluster_costs_no_question_about_the_others(stage: Stage) -> None:
    before = reviews(stage.hub)

    answer = await stage.get("/v1/clusters/ams-1", READER)

    assert answer.status_code == OK
    assert reviews(stage.hub) - before == len(["whose token", "list all", "get all", "get this one"])


@virtual
async def test_a_right_that_was_taken_away_is_gone_within_seconds() -> None:
    hub, clock = a_hub_with(TOKENS), VirtualClock()
    access = HubAuthorizer(hub, clock=clock)
    caller = await access.authenticate(OPERATOR)
    assert caller is not None

    assert not await access.is_allowed(caller, operator_access("get", "/v1/config"))
    role = {"metadata": {"name": "olga"}, "rules": [{"nonResourceURLs": ["/fleet/*"], "verbs": ["get"]}]}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "olga"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "olga"}
    base = "/apis/rbac.authorization.k8s.io/v1"
    await hub.create(f"{base}/clusterroles", role)
    await hub.create(f"{base}/clusterrolebindings", role | {"roleRef": reference, "subjects": [subject]})
    await clock.sleep(3)
    assert await access.is_allowed(caller, operator_access("get", "/v1/config"))
    await hub.delete(f"{base}/clusterrolebindings/olga")
    await clock.sleep(11)
    assert not await access.is_allowed(caller, operator_access("get", "/v1/config"))


@virtual
async def test_a_hub_that_does_not_answer_lets_nobody_in_and_is_asked_again() -> None:
    hub, clock = a_hub_with(TOKENS), VirtualClock()
    access = HubAuthorizer(FaultyApi(hub, in_turn(Down())), clock=clock)

    with pytest.raises(Unreachable):
        await access.authenticate(ADMIN)
    assert await access.authenticate(ADMIN) is not None


@virtual
async def test_W_10_who_may_see_what_is_not_known_while_the_hub_does_not_say_it_for_each() -> None:
    """Many are asked for at a time, and callers know what to do about a hub that is away."""
    permissions = Permissions(_AwayForNames(), Caller("rosa"))

    with pytest.raises(Unreachable):
        await permissions.load_visibility(["ams-1", "ams-2"])
    with pytest.raises(Unreachable):
        await permissions.filter_placements(["web", "shop/cache"])


class _AwayForNames(CallerAuthorizer):
    """Denies reading all, and fails for a single name."""

    async def authenticate(self, token: str) -> Caller:
        return Caller(token)

    async def is_allowed(self, caller: Caller, request: AccessRequest) -> bool:
        if request.name:
            raise Unreachable("scripted: connection refused")
        return False


class _ButNotPlacements(CallerAuthorizer):
    """Everything is granted to everybody, but no placement of one kind."""

    def __init__(self, plural: str) -> None:
        self._plural = plural

    async def authenticate(self, token: str) -> Caller:
        return Caller(token)

    async def is_allowed(self, caller: Caller, request: AccessRequest) -> bool:
        return request.resource != self._plural


@pytest.mark.parametrize("plural", ["clusterresourceplacements", "resourceplacements"])
def test_a_snapshot_is_for_who_may_list_the_placements_in_it(running: Running, plural: str) -> None:
    stage = running.stage
    app = create_app(live_beside(stage), None, _ButNotPlacements(plural), load_settings(None, {}, []))
    asking = Stage(stage.hub, stage.world, app, None, stage.controller)

    refused = running.call(asking.get("/v1/snapshot"))

    assert (refused.status_code, refused.json()["object"]) == (FORBIDDEN, plural)


# --- what is not to be read -------------------------------------------------------------------------------------------

# Not /metrics: its right is given to who watches the whole fleet, and its figures are by cluster.
GETS = (
    "/v1/placements",
    "/v1/placements/-/web",
    "/v1/placements/-/big",
    "/v1/placements/-/big/why?explain=all&fixes=deep",
    "/v1/placements/-/big/why?cluster=ams-1",
    "/v1/placements/-/web/history",
    "/v1/placements/-/big/history?diff=1..1",
    "/v1/clusters",
    "/v1/clusters/ams-1",
    "/v1/clusters/ams-1/why-not?placement=big&fixes=deep",
    "/v1/bindings?placement=big",
    "/v1/decisions?placement=big",
    "/v1/decisions?since=0",
    "/v1/profiles",
    "/v1/config",
    "/v1/snapshot",
    "/v1/groups/-/big/why",
    "/readyz",
    # refused
    "/v1/placements/-/big/why?cluster=dub",
    "/v1/placements/-/big/why?cluster=osl-2",
    "/v1/clusters/dub-2x",
    "/v1/clusters/osl/why-not?placement=big",
)
ADDED = {"op": "addCluster", "name": NEW, "like": "ams-1"}
POSTS = (
    ("/v1/simulate", {"placement": {"ref": "big"}, "edits": [ADDED], "fixes": "deep"}),
    ("/v1/simulate", {"placement": {"ref": "big"}, "edits": [{"op": "removeCluster", "cluster": "dub-1x"}]}),
    ("/v1/simulate", {"placement": {"ref": "big"}, "edits": [ADDED], "impact": True}),
    ("/v1/simulate", {"placement": {"ref": "big"}, "edits": [{"op": "removeCluster", "cluster": NEW}, ADDED]}),
    ("/v1/simulate", {"placement": {"ref": "big"}, "edits": [ADDED | {"name": "osl"}]}),
    ("/v1/replay", {"change": {"edits": [{"op": "removeCluster", "cluster": "ams-1"}]}}),
    ("/v1/replay", {"change": {"edits": [{"op": "evict", "cluster": "ams-1", "binding": "big"}]}}),
)


@alone
async def test_the_right_of_an_operator_is_that_to_the_path_that_was_matched(stage: Stage) -> None:
    """The URL is put together from what the client sends beside, such as its Host."""
    rules = [{"nonResourceURLs": [f"/fleet{CONFIG}"], "verbs": ["get", "post"]}]
    await stage.world.create(ROLES, {"metadata": {"name": "stan"}, "rules": rules})
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "stan"}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": "stan"}]
    await stage.world.create(BINDINGS, {"metadata": {"name": "stan"}, "roleRef": role, "subjects": subjects})
    paths = (CONFIG, "/v1/snapshot", EVERYTHING)

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(Request, "url", URL(f"http://fleet{CONFIG}"))
        codes = [(await stage.get(path, STRANGER)).status_code for path in paths]
        codes.append((await stage.post("/v1/replay", {}, STRANGER)).status_code)

    assert codes == [OK, FORBIDDEN, FORBIDDEN, FORBIDDEN]


@pytest.mark.parametrize("accept", ["application/json", "text/plain", "text/event-stream"])
@pytest.mark.parametrize("token", [AUTHOR, READER, OVERSEER])
def test_W_10_no_endpoint_text_or_error_names_a_cluster_that_may_not_be_read(
    running: Running, token: str, accept: str
) -> None:
    stage = running.stage
    answers = [running.call(stage.get(path, token, Accept=accept)) for path in GETS]
    answers += [running.call(stage.post(path, body, token, Accept=accept)) for path, body in POSTS]

    for answer in answers:
        assert answer.status_code < 500
        named = [name for name in HIDDEN if re.search(rf"{name}(?![0-9a-z])", answer.text)]
        assert not named, (answer.request.url, answer.text)
    assert sum(answer.status_code == OK for answer in answers) > 5

"""Scores of several plugins: weights decide the pick, and all answers add up the same parts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.api.stage import a_stage
from tests.api.test_profiles import place, write
from tests.installed import an_installed_package

LIKING = """
from fleet.framework.scalar import ScalarPlugin


class Liking(ScalarPlugin):
    ROW_LOCAL = True
    READS = ("labels",)

    def __init__(self, raw=None, handle=None):
        pass

    def name(self):
        return type(self).__name__

    def score_one(self, ctx, state, placement, cluster):
        return 60 if cluster.labels.get("region") == self.region else 20


class LikesAmsterdam(Liking):
    region = "ams"


class LikesDublin(Liking):
    region = "dub"
"""
LIKES = ("LikesAmsterdam", "LikesDublin")


def a_profile(name: str, *weights: int) -> str:
    listed = ", ".join(f"{{name: {plugin}, weight: {weight}}}" for plugin, weight in zip(LIKES, weights, strict=True))
    return f"- schedulerName: {name}\n  base: ExtendedProfile\n  plugins: {{score: {{enabled: [{listed}]}}}}\n"


def read_parts(attempt: dict[str, Any]) -> dict[str, tuple[int, dict[str, int]]]:
    """Totals and what they are made of, of the clusters that were scored."""
    rows = [row for row in attempt["clusters"] if row["total"] is not None]
    return {row["name"]: (row["total"], {each["plugin"]: each["final"] for each in row["scores"]}) for row in rows}


def test_weights_flip_the_pick_and_the_parts_add_up_in_every_answer(tmp_path: Path) -> None:
    text = "profiles:\n- schedulerName: DefaultScheduler\n" + a_profile("amstel", 10, 1) + a_profile("liffey", 1, 10)
    (tmp_path / "document").mkdir()
    (tmp_path / "likes").mkdir()

    async def main() -> None:
        async with a_stage(tmp_path, file=write(tmp_path / "document", text)) as stage:
            for profile, region, own in (("amstel", "ams", "LikesAmsterdam"), ("liffey", "dub", "LikesDublin")):
                await place(stage, profile, profile, placementType="PickN", numberOfClusters=2)
                await stage.world.soon_scheduled(profile)
                assert await stage.world.in_use(profile) == {f"{region}-1", f"{region}-2"}
                await stage.wait_until_recorded()
                why = f"/v1/placements/-/{profile}/why?explain=all"
                number = (await stage.json(f"/v1/placements/-/{profile}/history"))["items"][0]["n"]
                tolerated = {"op": "tolerate", "key": "dedicated", "operator": "Exists"}
                idea = {"placement": {"ref": profile}, "edits": [tolerated]}
                simulated = (await stage.post("/v1/simulate", idea)).json()["answer"]["attempt"]
                now, past = [(await stage.json(path))["attempt"] for path in (why, f"{why}&attempt={number}")]
                four = {"ams-1", "ams-2", "dub-1", "dub-2"}
                for attempt, scored in ((now, four), (past, four), (simulated, four | {"osl-1"})):
                    parts = read_parts(attempt)
                    assert set(parts) == scored
                    for name, (total, scores) in parts.items():
                        assert scores[own] == (600 if name.startswith(region) else 200)
                        assert total == sum(scores.values())

    with an_installed_package(tmp_path / "likes", LIKING, {name: name for name in LIKES}):
        asyncio.run(main())

"""Profiles of documents of kube-scheduler: what the compiled profile does, and that the report says so."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from fleet.cli.commands.config import check_config, convert_config
from fleet.framework.handle import OfflineHandle
from fleet.framework.profiles.profile import METHODS, CompiledProfile
from fleet.scheduler.profiles.frameworks import build_compiled_profiles
from fleet.settings import load_settings
from fleet.settings.document.kubescheduler_plugins import COUNTERPARTS
from fleet.settings.document.model import HOOKS
from plugins import in_tree_registry
from plugins.extended_profile import EXTENDED_PLUGINS
from tests.unit.scheduler.test_configured_profiles import HEAD

FOREIGN: Final = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
EVICTS, QUOTAS, GROUPS = "DefaultPreemption", "QuotaFit", "GangPlacement"
NEEDED: Final = ("queueSort", "batch", "sort", "bind")
"""Hooks that no profile is without."""


def compile_document(folder: Path, text: str) -> CompiledProfile:
    path = folder / "kube.yaml"
    path.write_text(text, encoding="utf-8")
    assert check_config(path) == 0
    (profile,) = build_compiled_profiles(load_settings(path, {}, ()).settings).by_name.values()
    return profile


def compile_plugins(folder: Path, plugins: str) -> CompiledProfile:
    return compile_document(folder, f"{FOREIGN}profiles:\n- schedulerName: a\n  plugins: {plugins}\n")


def find_hooks(profile: CompiledProfile, plugin: str) -> set[str]:
    return {hook for hook, entries in profile.hooks.items() if any(entry.name == plugin for entry in entries)}


def find_own_hooks(plugin: str) -> set[str]:
    return {hook for each in COUNTERPARTS.values() if each.native == plugin for hook in each.hooks}


def read_report(capsys: pytest.CaptureFixture[str], folder: Path) -> dict[str, str]:
    capsys.readouterr()
    convert_config(folder / "kube.yaml")
    lines = [line for line in capsys.readouterr().err.splitlines() if ".plugins." in line]
    pairs = [line.replace("profiles[0].plugins.", "").split(None, 2) for line in lines]
    return {path.rstrip(":"): f"{treatment}: {note[0]}" if note else treatment for treatment, path, *note in pairs}


def test_the_table_of_counterparts_is_true_of_plugins_and_base() -> None:
    registry = in_tree_registry()
    base = {ref.name for ref in EXTENDED_PLUGINS}
    for counterpart in COUNTERPARTS.values():
        assert counterpart.is_off == (counterpart.native not in base), counterpart.native
        if counterpart.hooks:
            built = registry[counterpart.native](None, OfflineHandle())
            assert {*counterpart.hooks} == {hook for hook, method in METHODS.items() if hasattr(built, method)}


@pytest.mark.parametrize(
    "plugins",
    [
        "{}",
        "{postFilter: {disabled: [{name: DefaultPreemption}]}}",
        '{postFilter: {disabled: [{name: "*"}]}}',
        "{multiPoint: {disabled: [{name: DefaultPreemption}]}}",
        "{multiPoint: {enabled: [{name: DefaultPreemption}]}, postFilter: {disabled: [{name: DefaultPreemption}]}}",
        '{multiPoint: {enabled: [{name: DefaultPreemption}]}, postFilter: {disabled: [{name: "*"}]}}',
        "{postFilter: {disabled: [{name: CapacityScheduling}]}}",
    ],
)
def test_C_12_nothing_is_evicted_unless_the_document_enables_it(tmp_path: Path, plugins: str) -> None:
    profile = compile_plugins(tmp_path, plugins)

    assert not profile.evicts
    assert find_hooks(profile, EVICTS) == set()


@pytest.mark.parametrize(
    "plugins",
    [
        "{multiPoint: {enabled: [{name: DefaultPreemption}]}}",
        "{multiPoint: {enabled: [{name: DefaultPreemption}], disabled: [{name: DefaultPreemption}]}}",
        "{postFilter: {enabled: [{name: DefaultPreemption}]}}",
        '{postFilter: {enabled: [{name: DefaultPreemption}], disabled: [{name: "*"}]}}',
        "{postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: DefaultPreemption}]}}",
        '{multiPoint: {enabled: [{name: DefaultPreemption}]}, filter: {disabled: [{name: "*"}]}}',
        "{multiPoint: {enabled: [{name: DefaultPreemption}]}, postFilter: {disabled: [{name: CapacityScheduling}]}}",
    ],
)
def test_C_12_a_document_that_enables_preemption_evicts(tmp_path: Path, plugins: str) -> None:
    profile = compile_plugins(tmp_path, plugins)

    assert profile.evicts
    assert find_hooks(profile, EVICTS) == find_own_hooks(EVICTS)


@pytest.mark.parametrize(
    "name, native, hook",
    [("Coscheduling", GROUPS, hook) for hook in ("queueSort", "preFilter", "postFilter", "permit", "reserve")]
    + [("CapacityScheduling", QUOTAS, hook) for hook in ("preFilter", "postFilter", "reserve", "multiPoint")],
)
def test_C_12_what_is_disabled_at_one_hook_is_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, native: str, hook: str
) -> None:
    profile = compile_plugins(tmp_path, f"{{{hook}: {{disabled: [{{name: {name}}}]}}}}")

    assert find_hooks(profile, native) == set()
    assert profile.decides_groups == (native != GROUPS)
    assert profile.reads_quotas == (native != QUOTAS)
    effect = native if hook == "multiPoint" else f"{native} is off at all of its hooks"
    assert read_report(capsys, tmp_path) == {f"{hook}.disabled[0].name": f"translated: {effect}"}


@pytest.mark.parametrize(
    "plugins, report, hooks",
    [
        (
            "{permit: {enabled: [{name: Coscheduling}]}, reserve: {disabled: [{name: Coscheduling}]}}",
            {
                "permit.enabled[0].name": "translated: GangPlacement, at all of its hooks",
                "reserve.disabled[0].name": "ignored: GangPlacement is on: a hook enables it",
            },
            {"preEnqueue"},
        ),
        (
            "{multiPoint: {enabled: [{name: Coscheduling}]}, queueSort: {disabled: [{name: Coscheduling}]}}",
            {
                "multiPoint.enabled[0].name": "translated: GangPlacement",
                "queueSort.disabled[0].name": "ignored: GangPlacement has no queueSort hook",
            },
            {"preEnqueue"},
        ),
        (
            "{multiPoint: {enabled: [{name: Coscheduling}]}, permit: {disabled: [{name: Coscheduling}]}}",
            {
                "multiPoint.enabled[0].name": "ignored: GangPlacement is off: a hook disables it",
                "permit.disabled[0].name": "translated: GangPlacement is off at all of its hooks",
            },
            set(),
        ),
        ('{permit: {disabled: [{name: "*"}]}}', {"permit.disabled[0].name": "honoured"}, set()),
    ],
)
def test_C_12_one_hook_enables_and_another_disables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], plugins: str, report: dict[str, str], hooks: set[str]
) -> None:
    profile = compile_plugins(tmp_path, plugins)

    assert find_hooks(profile, GROUPS) == hooks
    assert read_report(capsys, tmp_path) == report


def test_C_12_quotas_without_preemption(tmp_path: Path) -> None:
    plugins = (
        "{multiPoint: {enabled: [{name: CapacityScheduling}]}, postFilter: {disabled: [{name: CapacityScheduling}]}}"
    )
    profile = compile_plugins(tmp_path, plugins)

    assert find_hooks(profile, QUOTAS) == find_own_hooks(QUOTAS)
    assert not profile.evicts


@pytest.mark.parametrize(
    "plugins, note",
    [
        ("{score: {disabled: [{name: NodeResourcesMostAllocated}]}}", "NodeResourcesMostAllocated"),
        ("{multiPoint: {disabled: [{name: NodeResourceTopologyMatch}]}}", "PoolTopologyMatch"),
        ("{multiPoint: {disabled: [{name: DefaultPreemption}]}}", "DefaultPreemption"),
    ],
)
def test_C_12_what_is_off_in_any_case_is_not_switched_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], plugins: str, note: str
) -> None:
    profile = compile_plugins(tmp_path, plugins)

    assert {"filter", "score"} <= find_hooks(profile, "ResourceFit")
    (line,) = read_report(capsys, tmp_path).values()
    assert line == f"ignored: {note} is off unless it is enabled"


@pytest.mark.parametrize("hook", [hook for hook in HOOKS if hook not in NEEDED])
@pytest.mark.parametrize("base", ["ExtendedProfile", "LoadAware", ""])
def test_all_plugins_of_a_hook_may_be_left_out(tmp_path: Path, hook: str, base: str) -> None:
    config = "pluginConfig: [{name: TargetLoadPacking, args: {feed: load}}], " if base == "LoadAware" else ""
    feeds = "feeds: [{name: load, static: {ams-1: 3}}]\n" if base == "LoadAware" else ""
    plugins = f'plugins: {{{hook}: {{disabled: [{{name: "*"}}]}}}}'
    document = HEAD + feeds + f"profiles: [{{base: {base}, {config}{plugins}}}]\n"
    profile = compile_document(
        tmp_path, document if base else f"{FOREIGN}profiles: [{{schedulerName: a, {plugins}}}]\n"
    )

    assert profile.hooks[hook] == ()

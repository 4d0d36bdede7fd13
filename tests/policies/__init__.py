"""Policies as people write them by mistake, and what Fleet should say about each: the same in every answer."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent

REFUSED: Final = {
    "02-typo-field": ["numberofClusters: unknown field; did you mean numberOfClusters?", "did you mean affinity?"],
    "03-wrong-operator": ["'Equals' should be", "did you mean In?", "'>=' should be", "did you mean Ge?"],
    "09b-toleration-typo": ["did you mean Equal?", "did you mean NoSchedule?"],
    "10-api-version": [
        "version 'v2' of ClusterResourcePlacement does not exist; use v1 or v1beta1",
        "kind ClusterResourcePlacement is in placement.kubernetes-fleet.io/v1beta1; use that",
        "did you mean ClusterResourcePlacement?",
    ],
    "11-yaml-error": ["11-yaml-error.yaml:10: "],
    "11b-yaml-tab": ["11b-yaml-tab.yaml:6: "],
    "11c-indent": ["policy: unknown field; did you mean spec.policy?"],
    "12-duplicate": ["is also in", "keep one of the two"],
    "13-string-number": ["13-string-number.yaml:"],
    "13b": ["'P13_Upper' should be lower-case letters, digits, '-' and '.'"],
    "14-mixed-types": ["are not allowed with PickAll"],
    "15-nothing-selected": ["weight: 500 should be less than or equal to 100"],
}
"""By file, what the error says; nothing is decided or sent."""

REMARKED: Final = {
    "01-good": [],
    "04-unknown-property": [
        "no cluster has property kubernetes-fleet.io/nodecount; did you mean kubernetes-fleet.io/node-count, which is "
        "on 12 of 12?"
    ],
    "05-impossible-n": ["40 clusters are wanted, and the fleet has 12"],
    "06-skew-missing-label": [
        "no cluster has label topology.kubernetes.io/region, so spreading over it has no effect; did you mean region, "
        "which is on 12 of 12?"
    ],
    "07-contradiction": [
        "region In [us-east] and region NotIn [us-east] exclude each other: no cluster can match term 1"
    ],
    "07b-contradiction-spread": [
        "the required terms leave 1 of 3 values of region, so a max skew of 1 allows 1 of 4 clusters"
    ],
    "08-pickfixed-missing": [
        "no cluster is named amsterdam-1; did you mean ams-1?",
        "no cluster is named iad1; did you mean iad-1?",
    ],
    "09-toleration": [
        "no cluster has label accelerator",
        "no cluster has taint nvidia.com/gpus; did you mean nvidia.com/gpu, which is on 1 of 12?",
    ],
    "15b": [
        "no cluster has property resources.kubernetes-fleet.io/available-cpus; did you mean "
        "resources.kubernetes-fleet.io/available-cpu, which is on 12 of 12?"
    ],
    "16-label-value": [
        "no cluster has label Env; did you mean env, which is on 12 of 12?",
        "no cluster has env=production; env has prod 9, staging 2, lab 1; did you mean prod?",
    ],
    "17-nothing": [],
}
"""By file, the remarks on the fleet of `examples/fleet`, in their order."""


class Told(NamedTuple):
    """What every answer about a policy says, on the fleet of `examples/fleet`."""

    state: str
    summary: str
    cluster: str
    """The one that is asked about."""
    because: tuple[str, ...]
    """What is said of this cluster."""


_OTHERS: Final = (
    "1 agent silent, 1 left the fleet, 1 untolerated taint {maintenance: kernel-upgrade}, 1 untolerated taint "
    "{nvidia.com/gpu: a100}"
)
TOLD: Final = {
    "01-good": Told(
        "Scheduled",
        "3/12 clusters selected, need 3: 2 fit; 3 no affinity term matched, 1 agent silent, 1 left the fleet, 1 max "
        "skew of region exceeded, 1 untolerated taint {nvidia.com/gpu: a100}",
        "edge-lab",
        ("edge-lab is rejected by ClusterAffinity", "term 1: env In [prod] (is lab)"),
    ),
    "04-unknown-property": Told(
        "Unschedulable",
        "0/12 clusters selected, need 2: 12 no affinity term matched",
        "ams-1",
        ("ams-1 is rejected by ClusterAffinity", "term 1: kubernetes-fleet.io/nodecount Ge 5 (not set)"),
    ),
    "05-impossible-n": Told(
        "Partial",
        f"8/12 clusters selected, need 40: {_OTHERS}",
        "dub-gpu",
        ("dub-gpu is rejected by TaintToleration", "nvidia.com/gpu=a100:NoSchedule"),
    ),
    "06-skew-missing-label": Told(
        "Scheduled",
        f"6/12 clusters selected, need 6: 2 fit; {_OTHERS}",
        "ams-1",
        ("ams-1 fits, but others were chosen", "level with the last pick bom-1, the tie-break decides"),
    ),
    "07-contradiction": Told(
        "Unschedulable",
        "0/12 clusters selected, need 4: 12 no affinity term matched",
        "nyc-1",
        ("nyc-1 is rejected by ClusterAffinity", "region NotIn [us-east] (is us-east)"),
    ),
    "07b-contradiction-spread": Told(
        "Partial",
        "1/12 clusters selected, need 4: 8 no affinity term matched, 1 agent silent, 1 left the fleet, 1 max skew of "
        "region exceeded",
        "iad-1",
        ("iad-1 is rejected by TopologySpreadConstraints", "region=eu-west has no cluster left"),
    ),
    "08-pickfixed-missing": Told(
        "Partial",
        "1/12 clusters selected, need 3: 11 not listed; 2 listed but not in the fleet",
        "iad1",
        ("iad1 is named by the policy, but no cluster has this name",),
    ),
    "09-toleration": Told(
        "Unschedulable",
        "0/12 clusters selected, need 1: 12 no affinity term matched",
        "dub-gpu",
        ("dub-gpu is rejected by ClusterAffinity", "accelerator Exists (not set)", "nvidia.com/gpu=a100:NoSchedule"),
    ),
    "15b": Told(
        "InputError",
        "nothing is scheduled until the placement can be used",
        "sin-1",
        (
            "PL-06: Deployment is namespaced; select its namespace or use a ResourcePlacement "
            "(spec.resourceSelectors[0])",
            "sin-1 was not evaluated: the placement has to be edited first",
        ),
    ),
    "16-label-value": Told(
        "Unschedulable",
        "0/12 clusters selected, need 2: 12 no affinity term matched",
        "iad-1",
        ("term 1: Env In [production] (not set)", "term 2: env In [production] (is prod)"),
    ),
    "17-nothing": Told(
        "Scheduled",
        f"2/12 clusters selected, need 2: 6 fit; {_OTHERS}",
        "iad-2",
        ("iad-2 is rejected by ClusterEligibility", "no recent heartbeat"),
    ),
}
"""By file, for those that are not refused."""


def path_of(name: str) -> str:
    return str(FOLDER / f"{name}.yaml")

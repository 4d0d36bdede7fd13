"""Labels, annotations, finalizers and names that connect the objects. Shared with KubeFleet's agents."""

from __future__ import annotations

from typing import Final

PLACEMENT_GROUP: Final = "placement.kubernetes-fleet.io"
CLUSTER_GROUP: Final = "cluster.kubernetes-fleet.io"
SCHEDULING_GROUP: Final = "scheduling.fleet.dev"
OPERATOR_GROUP: Final = "operator.fleet.dev"
OPENSHIFT_OPERATOR_GROUP: Final = "operator.openshift.io"
"""Of SecondarySchedulers that were written for the operator of OpenShift."""
STORAGE_VERSION: Final = "v1beta1"
COMPANION_VERSION: Final = "v1alpha1"
"""Of the kinds in SCHEDULING_GROUP."""

PREFIX: Final = "kubernetes-fleet.io/"

# labels
PARENT_PLACEMENT: Final = PREFIX + "parent-CRP"
IS_LATEST_SNAPSHOT: Final = PREFIX + "is-latest-snapshot"
POLICY_INDEX: Final = PREFIX + "policy-index"
RESOURCE_INDEX: Final = PREFIX + "resource-index"
MEMBER_NAME: Final = PREFIX + "member-name"

# annotations
NUMBER_OF_CLUSTERS: Final = PREFIX + "number-of-clusters"
PLACEMENT_GENERATION: Final = PREFIX + "CRP-generation"
PREVIOUS_BINDING_STATE: Final = PREFIX + "previous-binding-state"

SCHEDULER_NAME: Final = "scheduling.fleet.dev/scheduler-name"
"""On a placement: the profile that decides it."""
OPTIONS: Final = "scheduling.fleet.dev/options"
"""On a placement: `required` holds it until its options exist."""
PRIORITY_CLASS: Final = "scheduling.fleet.dev/priority-class"
"""On a placement: the PriorityClass that gives its priority."""
GATES: Final = "scheduling.fleet.dev/gates"
"""On a placement: the gates that hold it, separated by commas."""
REQUESTS: Final = "scheduling.fleet.dev/requests"
"""On a placement: what its copy on one cluster needs, as in `cpu=2,memory=4Gi`."""
WORKLOAD_REQUESTS: Final = "scheduling.fleet.dev/workload-requests"
WORKLOAD_LIMITS: Final = "scheduling.fleet.dev/workload-limits"
"""On a policy snapshot: what one cluster's copy of the selected workloads needs, as in `cpu=2;node:cpu=100m`. What
follows `node:` is needed on each node."""
WORKLOAD_REMARKS: Final = "scheduling.fleet.dev/workload-remarks"
"""On a policy snapshot: what of the workloads does not count, a line each."""
LOCALITY: Final = "scheduling.fleet.dev/locality"
"""On a placement: the data sets that it reads, with their sizes, as in `models=40Gi,base=2Gi`."""
AFFINITY: Final = "scheduling.fleet.dev/affinity"
"""On a placement, in JSON: the placements it belongs with, and those it keeps away from."""
PLACEMENT_LABELS: Final = "scheduling.fleet.dev/placement-labels"
"""Not on placements: their labels in JSON, beside the annotations from which a request is compiled."""
QUOTAS: Final = "scheduling.fleet.dev/quotas"
"""On a recorded policy snapshot: what was in use of the placement's quotas when it was decided."""
PRIORITY: Final = "scheduling.fleet.dev/priority"
"""On a policy snapshot of the history: the priority that its placement had."""
PREEMPTION_POLICY: Final = "scheduling.fleet.dev/preemption-policy"
"""On a policy snapshot of the history: `Never` if its placement was to evict nothing."""
NEVER: Final = "Never"
MIN_TARGETS: Final = "scheduling.fleet.dev/min-targets"
"""On a placement: fewer clusters than that are of no use to it."""
GROUP: Final = "scheduling.fleet.dev/group"
"""On a placement: the placement group that it belongs to."""
PLACEMENT_ANNOTATIONS: Final = (
    SCHEDULER_NAME, OPTIONS, PRIORITY_CLASS, GATES, REQUESTS, LOCALITY, AFFINITY, MIN_TARGETS, GROUP,
)  # fmt: skip
"""What the scheduler reads on a placement."""
MADE_BY: Final = "scheduling.fleet.dev/made-by"
BY_SCHEDULER: Final = "scheduler"
"""The label of options that the scheduler made for a placement that waits without any."""

# finalizers
SCHEDULER_CLEANUP: Final = PREFIX + "scheduler-cleanup"
SCHEDULER_BINDING_CLEANUP: Final = PREFIX + "scheduler-crb-cleanup"
PLACEMENT_CLEANUP: Final = PREFIX + "crp-cleanup"
WORK_CLEANUP: Final = PREFIX + "work-cleanup"
MEMBER_CLUSTER_FINALIZER: Final = PREFIX + "membercluster-finalizer"

# properties
NODE_COUNT: Final = PREFIX + "node-count"
RESOURCE_PROPERTY_PREFIX: Final = "resources.kubernetes-fleet.io/"

# agents and conditions
MEMBER_AGENT: Final = "MemberAgent"
JOINED: Final = "Joined"
HEALTHY: Final = "Healthy"
NAMESPACE_COLLECTION_SUCCEEDED: Final = "NamespaceCollectionSucceeded"
SCHEDULED_CONDITION: Final = "Scheduled"
POLICY_FULFILLED: Final = "SchedulingPolicyFulfilled"
POLICY_UNFULFILLED: Final = "SchedulingPolicyUnfulfilled"

# binding states
SCHEDULED: Final = "Scheduled"
BOUND: Final = "Bound"
UNSCHEDULED: Final = "Unscheduled"

# placement types
PICK_ALL: Final = "PickAll"
PICK_N: Final = "PickN"
PICK_FIXED: Final = "PickFixed"

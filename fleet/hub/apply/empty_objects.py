"""What objects of built-in kinds have before anybody wrote to them.

The types of these kinds always have certain fields, some of them empty. Creating an object does not make its creator
their manager, but for what is put into them.
"""

from __future__ import annotations

import json
from copy import deepcopy
from functools import lru_cache
from typing import Any, Final

_OBJECTS: Final = """\
apiextensions.k8s.io/v1.CustomResourceDefinition {"spec":{"group":"","names":{"plural":"","kind":""},"scope":"",
    "versions":null},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}}
apps/v1.ControllerRevision {"data":null,"revision":0}
apps/v1.DaemonSet {"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},
    "updateStrategy":{}},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,
    "numberReady":0}}
apps/v1.Deployment {"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},
    "status":{}}
apps/v1.ReplicaSet {"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}}},
    "status":{"replicas":0}}
apps/v1.StatefulSet {"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"serviceName":"",
    "updateStrategy":{}},"status":{"replicas":0,"availableReplicas":0}}
autoscaling/v2.HorizontalPodAutoscaler {"spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},
    "status":{"desiredReplicas":0,"currentMetrics":null}}
batch/v1.CronJob {"spec":{"schedule":"","jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},
    "spec":{"containers":null}}}}},"status":{}}
batch/v1.Job {"spec":{"template":{"metadata":{},"spec":{"containers":null}}},"status":{}}
coordination.k8s.io/v1.Lease {"spec":{}}
discovery.k8s.io/v1.EndpointSlice {"addressType":"","endpoints":null,"ports":null}
events.k8s.io/v1.Event {"eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,
    "deprecatedLastTimestamp":null}
networking.k8s.io/v1.Ingress {"spec":{},"status":{"loadBalancer":{}}}
networking.k8s.io/v1.NetworkPolicy {"spec":{"podSelector":{}}}
policy/v1.PodDisruptionBudget {"spec":{},"status":{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,
    "expectedPods":0}}
rbac.authorization.k8s.io/v1.ClusterRole {"rules":null}
rbac.authorization.k8s.io/v1.ClusterRoleBinding {"roleRef":{"apiGroup":"","kind":"","name":""}}
rbac.authorization.k8s.io/v1.Role {"rules":null}
rbac.authorization.k8s.io/v1.RoleBinding {"roleRef":{"apiGroup":"","kind":"","name":""}}
scheduling.k8s.io/v1.PriorityClass {"value":0}
storage.k8s.io/v1.StorageClass {"provisioner":""}
v1.Event {"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,
    "reportingComponent":"","reportingInstance":""}
v1.LimitRange {"spec":{"limits":null}}
v1.Namespace {"spec":{},"status":{}}
v1.PersistentVolume {"spec":{},"status":{}}
v1.PersistentVolumeClaim {"spec":{"resources":{}},"status":{}}
v1.Pod {"spec":{"containers":null},"status":{}}
v1.PodTemplate {"template":{"metadata":{},"spec":{"containers":null}}}
v1.ReplicationController {"spec":{},"status":{"replicas":0}}
v1.ResourceQuota {"spec":{},"status":{}}
v1.Service {"spec":{},"status":{"loadBalancer":{}}}
"""


def empty_object(api_version: str, kind: str) -> dict[str, Any]:
    return {"metadata": {}, **deepcopy(_objects().get(f"{api_version}.{kind}", {}))}


@lru_cache(maxsize=1)
def _objects() -> dict[str, dict[str, Any]]:
    lines = [line.split(" ", 1) for line in _OBJECTS.replace("\n    ", "").splitlines()]
    return {name: json.loads(text) for name, text in lines}

"""How the fields of built-in kinds are merged: which lists have keys, which maps and lists are replaced as a whole.

One line per type, continued where indented, naming its fields that are neither scalars nor lists without keys:

    field:Type            an object of that type
    field:{Type}          a map, of scalars if no type is named
    field:Type[key,key]   a list merged by keys; `key=value` tells what a missing key stands for;
                          items of the type `@` are replaced as a whole
    field:[]              a list that is a set
    field:!               replaced as a whole
    field:?               of any form
    …/key                 merged by that key in strategic merge patches, as scalars if no key is named
    …+                    `$retainKeys` may tell which fields of it remain
    …=                    replaced by strategic merge patches

Lists that are not named are replaced as a whole. Types without a line are objects of which every field is so.
"""

from __future__ import annotations

from typing import Final

ROOTS: Final = """\
v1.Namespace v1.ConfigMap v1.Secret v1.Service v1.ServiceAccount v1.Event v1.LimitRange v1.ResourceQuota
v1.PersistentVolumeClaim v1.PersistentVolume v1.Pod v1.PodTemplate v1.ReplicationController v1.Node v1.Endpoints
apps/v1.Deployment apps/v1.StatefulSet apps/v1.DaemonSet apps/v1.ReplicaSet apps/v1.ControllerRevision batch/v1.Job
batch/v1.CronJob rbac.authorization.k8s.io/v1.Role rbac.authorization.k8s.io/v1.RoleBinding
rbac.authorization.k8s.io/v1.ClusterRole rbac.authorization.k8s.io/v1.ClusterRoleBinding networking.k8s.io/v1.Ingress
networking.k8s.io/v1.IngressClass networking.k8s.io/v1.NetworkPolicy policy/v1.PodDisruptionBudget
coordination.k8s.io/v1.Lease events.k8s.io/v1.Event=EventsEvent apiextensions.k8s.io/v1.CustomResourceDefinition
autoscaling/v2.HorizontalPodAutoscaler storage.k8s.io/v1.StorageClass scheduling.k8s.io/v1.PriorityClass
admissionregistration.k8s.io/v1.ValidatingWebhookConfiguration
admissionregistration.k8s.io/v1.MutatingWebhookConfiguration discovery.k8s.io/v1.EndpointSlice
"""

TYPES: Final = """\
AdmissionregistrationWebhookClientConfig service:AdmissionregistrationServiceReference
Affinity nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity
CSIPersistentVolumeSource controllerExpandSecretRef:! controllerPublishSecretRef:! nodeExpandSecretRef:!
    nodePublishSecretRef:! nodeStageSecretRef:! volumeAttributes:{}
CSIVolumeSource nodePublishSecretRef:! volumeAttributes:{}
CephFSPersistentVolumeSource secretRef:!
CephFSVolumeSource secretRef:!
CinderPersistentVolumeSource secretRef:!
CinderVolumeSource secretRef:!
ClusterRole aggregationRule:AggregationRule metadata:ObjectMeta
ClusterRoleBinding metadata:ObjectMeta roleRef:!
ConfigMap binaryData:{} data:{} metadata:ObjectMeta
Container env:EnvVar[name]/name lifecycle:Lifecycle livenessProbe:Probe
    ports:ContainerPort[containerPort,protocol=TCP]/containerPort readinessProbe:Probe resources:ResourceRequirements
    securityContext:SecurityContext startupProbe:Probe volumeDevices:VolumeDevice[devicePath]/devicePath
    volumeMounts:VolumeMount[mountPath]/mountPath
ControllerRevision data:? metadata:ObjectMeta
CronJob metadata:ObjectMeta spec:CronJobSpec status:CronJobStatus
CronJobSpec jobTemplate:JobTemplateSpec
CustomResourceConversion webhook:WebhookConversion
CustomResourceDefinition metadata:ObjectMeta spec:CustomResourceDefinitionSpec status:CustomResourceDefinitionStatus
CustomResourceDefinitionSpec conversion:CustomResourceConversion names:CustomResourceDefinitionNames
CustomResourceDefinitionStatus acceptedNames:CustomResourceDefinitionNames
    conditions:CustomResourceDefinitionCondition[type]
DaemonSet metadata:ObjectMeta spec:DaemonSetSpec status:DaemonSetStatus
DaemonSetSpec selector:! template:PodTemplateSpec updateStrategy:DaemonSetUpdateStrategy
DaemonSetStatus conditions:DaemonSetCondition[type]/type
DaemonSetUpdateStrategy rollingUpdate:RollingUpdateDaemonSet
Deployment metadata:ObjectMeta spec:DeploymentSpec status:DeploymentStatus
DeploymentSpec selector:! strategy:DeploymentStrategy+ template:PodTemplateSpec
DeploymentStatus conditions:DeploymentCondition[type]/type
DeploymentStrategy rollingUpdate:RollingUpdateDeployment
EndpointSlice metadata:ObjectMeta
Endpoints metadata:ObjectMeta
EnvVar valueFrom:EnvVarSource
EnvVarSource configMapKeyRef:! fieldRef:! fileKeyRef:! resourceFieldRef:! secretKeyRef:!
EphemeralContainer env:EnvVar[name]/name lifecycle:Lifecycle livenessProbe:Probe
    ports:ContainerPort[containerPort,protocol=TCP]/containerPort readinessProbe:Probe resources:ResourceRequirements
    securityContext:SecurityContext startupProbe:Probe volumeDevices:VolumeDevice[devicePath]/devicePath
    volumeMounts:VolumeMount[mountPath]/mountPath
EphemeralVolumeSource volumeClaimTemplate:PersistentVolumeClaimTemplate
Event involvedObject:! metadata:ObjectMeta related:! series:EventSeries source:EventSource
EventsEvent deprecatedSource:EventSource metadata:ObjectMeta regarding:! related:! series:EventsEventSeries
FlexPersistentVolumeSource options:{} secretRef:!
FlexVolumeSource options:{} secretRef:!
HorizontalPodAutoscaler metadata:ObjectMeta spec:HorizontalPodAutoscalerSpec status:HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerBehavior scaleDown:HPAScalingRules scaleUp:HPAScalingRules
HorizontalPodAutoscalerSpec behavior:HorizontalPodAutoscalerBehavior scaleTargetRef:CrossVersionObjectReference
HorizontalPodAutoscalerStatus conditions:HorizontalPodAutoscalerCondition[type]/type
ISCSIPersistentVolumeSource secretRef:!
ISCSIVolumeSource secretRef:!
Ingress metadata:ObjectMeta spec:IngressSpec status:IngressStatus
IngressBackend resource:! service:IngressServiceBackend
IngressClass metadata:ObjectMeta spec:IngressClassSpec
IngressClassSpec parameters:IngressClassParametersReference
IngressServiceBackend port:!
IngressSpec defaultBackend:IngressBackend
IngressStatus loadBalancer:IngressLoadBalancerStatus
Job metadata:ObjectMeta spec:JobSpec status:JobStatus
JobSpec podFailurePolicy:PodFailurePolicy selector:! successPolicy:SuccessPolicy template:PodTemplateSpec
JobStatus conditions:!JobCondition/type uncountedTerminatedPods:UncountedTerminatedPods
JobTemplateSpec metadata:ObjectMeta spec:JobSpec
Lease metadata:ObjectMeta spec:LeaseSpec
Lifecycle postStart:LifecycleHandler preStop:LifecycleHandler
LifecycleHandler exec:ExecAction httpGet:HTTPGetAction sleep:SleepAction tcpSocket:TCPSocketAction
LimitRange metadata:ObjectMeta spec:LimitRangeSpec
MutatingWebhook clientConfig:AdmissionregistrationWebhookClientConfig matchConditions:MatchCondition[name]/name
    namespaceSelector:! objectSelector:!
MutatingWebhookConfiguration metadata:ObjectMeta webhooks:MutatingWebhook[name]/name
Namespace metadata:ObjectMeta spec:NamespaceSpec status:NamespaceStatus
NamespaceStatus conditions:NamespaceCondition[type]/type
NetworkPolicy metadata:ObjectMeta spec:NetworkPolicySpec
NetworkPolicySpec podSelector:!
Node metadata:ObjectMeta spec:NodeSpec status:NodeStatus
NodeAffinity requiredDuringSchedulingIgnoredDuringExecution:!
NodeConfigSource configMap:ConfigMapNodeConfigSource
NodeConfigStatus active:NodeConfigSource assigned:NodeConfigSource lastKnownGood:NodeConfigSource
NodeDaemonEndpoints kubeletEndpoint:DaemonEndpoint
NodeSpec configSource:NodeConfigSource podCIDRs:[]/
NodeStatus addresses:NodeAddress[type]/type allocatable:{} capacity:{} conditions:NodeCondition[type]/type
    config:NodeConfigStatus daemonEndpoints:NodeDaemonEndpoints features:NodeFeatures nodeInfo:NodeSystemInfo
NodeSystemInfo swap:NodeSwapStatus
ObjectMeta annotations:{} finalizers:[]/ labels:{} ownerReferences:@[uid]/uid
PersistentVolume metadata:ObjectMeta spec:PersistentVolumeSpec status:PersistentVolumeStatus
PersistentVolumeClaim metadata:ObjectMeta spec:PersistentVolumeClaimSpec status:PersistentVolumeClaimStatus
PersistentVolumeClaimSpec dataSource:! dataSourceRef:TypedObjectReference resources:VolumeResourceRequirements
    selector:!
PersistentVolumeClaimStatus allocatedResourceStatuses:{} allocatedResources:{} capacity:{}
    conditions:PersistentVolumeClaimCondition[type]/type modifyVolumeStatus:ModifyVolumeStatus
PersistentVolumeClaimTemplate metadata:ObjectMeta spec:PersistentVolumeClaimSpec
PersistentVolumeSpec awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource
    azureFile:AzureFilePersistentVolumeSource capacity:{} cephfs:CephFSPersistentVolumeSource
    cinder:CinderPersistentVolumeSource claimRef:! csi:CSIPersistentVolumeSource fc:FCVolumeSource
    flexVolume:FlexPersistentVolumeSource flocker:FlockerVolumeSource gcePersistentDisk:GCEPersistentDiskVolumeSource
    glusterfs:GlusterfsPersistentVolumeSource hostPath:HostPathVolumeSource iscsi:ISCSIPersistentVolumeSource
    local:LocalVolumeSource nfs:NFSVolumeSource nodeAffinity:VolumeNodeAffinity
    photonPersistentDisk:PhotonPersistentDiskVolumeSource portworxVolume:PortworxVolumeSource
    quobyte:QuobyteVolumeSource rbd:RBDPersistentVolumeSource scaleIO:ScaleIOPersistentVolumeSource
    storageos:StorageOSPersistentVolumeSource vsphereVolume:VsphereVirtualDiskVolumeSource
Pod metadata:ObjectMeta spec:PodSpec status:PodStatus
PodDisruptionBudget metadata:ObjectMeta spec:PodDisruptionBudgetSpec status:PodDisruptionBudgetStatus
PodDisruptionBudgetSpec selector:!=
PodDisruptionBudgetStatus conditions:Condition[type]/type disruptedPods:{}
PodSecurityContext appArmorProfile:AppArmorProfile seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile
    windowsOptions:WindowsSecurityContextOptions
PodSpec affinity:Affinity containers:Container[name]/name dnsConfig:PodDNSConfig
    ephemeralContainers:EphemeralContainer[name]/name hostAliases:HostAlias[ip]/ip imagePullSecrets:@[name]/name
    initContainers:Container[name]/name nodeSelector:! os:PodOS overhead:{}
    resourceClaims:PodResourceClaim[name]/name+ resources:ResourceRequirements
    schedulingGates:PodSchedulingGate[name]/name securityContext:PodSecurityContext
    topologySpreadConstraints:TopologySpreadConstraint[topologyKey,whenUnsatisfiable]/topologyKey
    volumes:Volume[name]/name+
PodStatus conditions:PodCondition[type]/type extendedResourceClaimStatus:PodExtendedResourceClaimStatus
    hostIPs:!HostIP/ip podIPs:PodIP[ip]/ip resourceClaimStatuses:PodResourceClaimStatus[name]/name+
PodTemplate metadata:ObjectMeta template:PodTemplateSpec
PodTemplateSpec metadata:ObjectMeta spec:PodSpec
PriorityClass metadata:ObjectMeta
Probe exec:ExecAction grpc:GRPCAction httpGet:HTTPGetAction tcpSocket:TCPSocketAction
RBDPersistentVolumeSource secretRef:!
RBDVolumeSource secretRef:!
ReplicaSet metadata:ObjectMeta spec:ReplicaSetSpec status:ReplicaSetStatus
ReplicaSetSpec selector:! template:PodTemplateSpec
ReplicaSetStatus conditions:ReplicaSetCondition[type]/type
ReplicationController metadata:ObjectMeta spec:ReplicationControllerSpec status:ReplicationControllerStatus
ReplicationControllerSpec selector:! template:PodTemplateSpec
ReplicationControllerStatus conditions:ReplicationControllerCondition[type]/type
ResourceQuota metadata:ObjectMeta spec:ResourceQuotaSpec status:ResourceQuotaStatus
ResourceQuotaSpec hard:{} scopeSelector:!
ResourceQuotaStatus hard:{} used:{}
ResourceRequirements claims:ResourceClaim[name] limits:{} requests:{}
Role metadata:ObjectMeta
RoleBinding metadata:ObjectMeta roleRef:!
ScaleIOPersistentVolumeSource secretRef:!
ScaleIOVolumeSource secretRef:!
Secret data:{} metadata:ObjectMeta stringData:{}
SecurityContext appArmorProfile:AppArmorProfile capabilities:Capabilities seLinuxOptions:SELinuxOptions
    seccompProfile:SeccompProfile windowsOptions:WindowsSecurityContextOptions
Service metadata:ObjectMeta spec:ServiceSpec status:ServiceStatus
ServiceAccount metadata:ObjectMeta secrets:@[name]/name
ServiceSpec ports:ServicePort[port,protocol=TCP]/port selector:! sessionAffinityConfig:SessionAffinityConfig
ServiceStatus conditions:Condition[type]/type loadBalancer:LoadBalancerStatus
SessionAffinityConfig clientIP:ClientIPConfig
StatefulSet metadata:ObjectMeta spec:StatefulSetSpec status:StatefulSetStatus
StatefulSetSpec ordinals:StatefulSetOrdinals
    persistentVolumeClaimRetentionPolicy:StatefulSetPersistentVolumeClaimRetentionPolicy selector:!
    template:PodTemplateSpec updateStrategy:StatefulSetUpdateStrategy
StatefulSetStatus conditions:StatefulSetCondition[type]/type
StatefulSetUpdateStrategy rollingUpdate:RollingUpdateStatefulSetStrategy
StorageClass metadata:ObjectMeta parameters:{}
StorageOSPersistentVolumeSource secretRef:!
StorageOSVolumeSource secretRef:!
TopologySpreadConstraint labelSelector:!
UncountedTerminatedPods failed:[] succeeded:[]
ValidatingWebhook clientConfig:AdmissionregistrationWebhookClientConfig matchConditions:MatchCondition[name]/name
    namespaceSelector:! objectSelector:!
ValidatingWebhookConfiguration metadata:ObjectMeta webhooks:ValidatingWebhook[name]/name
Volume awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource
    azureFile:AzureFileVolumeSource cephfs:CephFSVolumeSource cinder:CinderVolumeSource
    configMap:ConfigMapVolumeSource csi:CSIVolumeSource downwardAPI:DownwardAPIVolumeSource
    emptyDir:EmptyDirVolumeSource ephemeral:EphemeralVolumeSource fc:FCVolumeSource flexVolume:FlexVolumeSource
    flocker:FlockerVolumeSource gcePersistentDisk:GCEPersistentDiskVolumeSource gitRepo:GitRepoVolumeSource
    glusterfs:GlusterfsVolumeSource hostPath:HostPathVolumeSource image:ImageVolumeSource iscsi:ISCSIVolumeSource
    nfs:NFSVolumeSource persistentVolumeClaim:PersistentVolumeClaimVolumeSource
    photonPersistentDisk:PhotonPersistentDiskVolumeSource portworxVolume:PortworxVolumeSource
    projected:ProjectedVolumeSource quobyte:QuobyteVolumeSource rbd:RBDVolumeSource scaleIO:ScaleIOVolumeSource
    secret:SecretVolumeSource storageos:StorageOSVolumeSource vsphereVolume:VsphereVirtualDiskVolumeSource
VolumeNodeAffinity required:!
VolumeResourceRequirements limits:{} requests:{}
WebhookClientConfig service:ServiceReference
WebhookConversion clientConfig:WebhookClientConfig
"""

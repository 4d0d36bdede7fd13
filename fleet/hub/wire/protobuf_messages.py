"""How objects of built-in kinds are encoded: the numbers, names and types of the fields of each message.

One line per message, continued where indented. A field is a number, a name (none: its fields are written as if they
were fields of the message around it), a mark and a type:

    4name:s        a text; also b (bool), i and u (whole numbers), f (double), y (bytes), or the name of a message
    4name?:s       kept even if empty or zero
    4name*:s       a list
    4name{}:s      a map from texts
    @Time          a type with a JSON form of its own
"""

from __future__ import annotations

from typing import Final

ROOTS: Final = """\
v1.Namespace v1.ConfigMap v1.Secret v1.Service v1.ServiceAccount v1.Event v1.LimitRange v1.ResourceQuota
v1.PersistentVolumeClaim v1.PersistentVolume v1.Pod v1.PodTemplate v1.ReplicationController v1.Endpoints
apps/v1.Deployment apps/v1.StatefulSet apps/v1.DaemonSet apps/v1.ReplicaSet apps/v1.ControllerRevision batch/v1.Job
batch/v1.CronJob rbac.authorization.k8s.io/v1.Role rbac.authorization.k8s.io/v1.RoleBinding
rbac.authorization.k8s.io/v1.ClusterRole rbac.authorization.k8s.io/v1.ClusterRoleBinding networking.k8s.io/v1.Ingress
networking.k8s.io/v1.IngressClass networking.k8s.io/v1.NetworkPolicy policy/v1.PodDisruptionBudget policy/v1.Eviction
coordination.k8s.io/v1.Lease events.k8s.io/v1.Event=EventsEvent autoscaling/v2.HorizontalPodAutoscaler
autoscaling/v1.Scale storage.k8s.io/v1.StorageClass scheduling.k8s.io/v1.PriorityClass
authentication.k8s.io/v1.TokenReview authentication.k8s.io/v1.TokenRequest authentication.k8s.io/v1.SelfSubjectReview
authorization.k8s.io/v1.SubjectAccessReview authorization.k8s.io/v1.SelfSubjectAccessReview
authorization.k8s.io/v1.LocalSubjectAccessReview authorization.k8s.io/v1.SelfSubjectRulesReview
apiextensions.k8s.io/v1.CustomResourceDefinition v1.DeleteOptions meta.k8s.io/v1.DeleteOptions
"""

MESSAGES: Final = """\
AWSElasticBlockStoreVolumeSource 1volumeID?:s 2fsType:s 3partition:i 4readOnly:b
Affinity 1nodeAffinity?:NodeAffinity 2podAffinity?:PodAffinity 3podAntiAffinity?:PodAntiAffinity
AggregationRule 1clusterRoleSelectors*:LabelSelector
AppArmorProfile 1type?:s 2localhostProfile?:s
AzureDiskVolumeSource 1diskName?:s 2diskURI?:s 3cachingMode?:s 4fsType?:s 5readOnly?:b 6kind?:s
AzureFilePersistentVolumeSource 1secretName?:s 2shareName?:s 3readOnly:b 4secretNamespace?:s
AzureFileVolumeSource 1secretName?:s 2shareName?:s 3readOnly:b
BoundObjectReference 1kind:s 2apiVersion:s 3name:s 4uid:s
CSIPersistentVolumeSource 1driver?:s 2volumeHandle?:s 3readOnly:b 4fsType:s 5volumeAttributes{}:s
    6controllerPublishSecretRef?:SecretReference 7nodeStageSecretRef?:SecretReference
    8nodePublishSecretRef?:SecretReference 9controllerExpandSecretRef?:SecretReference
    10nodeExpandSecretRef?:SecretReference
CSIVolumeSource 1driver?:s 2readOnly?:b 3fsType?:s 4volumeAttributes{}:s 5nodePublishSecretRef?:LocalObjectReference
Capabilities 1add*:s 2drop*:s
CephFSPersistentVolumeSource 1monitors*:s 2path:s 3user:s 4secretFile:s 5secretRef?:SecretReference 6readOnly:b
CephFSVolumeSource 1monitors*:s 2path:s 3user:s 4secretFile:s 5secretRef?:LocalObjectReference 6readOnly:b
CinderPersistentVolumeSource 1volumeID?:s 2fsType:s 3readOnly:b 4secretRef?:SecretReference
CinderVolumeSource 1volumeID?:s 2fsType:s 3readOnly:b 4secretRef?:LocalObjectReference
ClientIPConfig 1timeoutSeconds?:i
ClusterRole 1metadata:ObjectMeta 2rules*:PolicyRule 3aggregationRule?:AggregationRule
ClusterRoleBinding 1metadata:ObjectMeta 2subjects*:Subject 3roleRef:RoleRef
ClusterTrustBundleProjection 1name?:s 2signerName?:s 3labelSelector?:LabelSelector 5optional?:b 4path?:s
Condition 1type?:s 2status?:s 3observedGeneration:i 4lastTransitionTime:@Time 5reason?:s 6message?:s
ConfigMap 1metadata:ObjectMeta 4immutable?:b 2data{}:s 3binaryData{}:y
ConfigMapEnvSource 1:LocalObjectReference 2optional?:b
ConfigMapKeySelector 1:LocalObjectReference 2key?:s 3optional?:b
ConfigMapProjection 1:LocalObjectReference 2items*:KeyToPath 4optional?:b
ConfigMapVolumeSource 1:LocalObjectReference 2items*:KeyToPath 3defaultMode?:i 4optional?:b
Container 1name?:s 2image:s 3command*:s 4args*:s 5workingDir:s 6ports*:ContainerPort 19envFrom*:EnvFromSource
    7env*:EnvVar 8resources:ResourceRequirements 23resizePolicy*:ContainerResizePolicy 24restartPolicy?:s
    25restartPolicyRules*:ContainerRestartRule 9volumeMounts*:VolumeMount 21volumeDevices*:VolumeDevice
    10livenessProbe?:Probe 11readinessProbe?:Probe 22startupProbe?:Probe 12lifecycle?:Lifecycle
    13terminationMessagePath:s 20terminationMessagePolicy:s 14imagePullPolicy:s 15securityContext?:SecurityContext
    16stdin:b 17stdinOnce:b 18tty:b
ContainerExtendedResourceRequest 1containerName?:s 2resourceName?:s 3requestName?:s
ContainerPort 1name:s 2hostPort:i 3containerPort?:i 4protocol:s 5hostIP:s
ContainerResizePolicy 1resourceName?:s 2restartPolicy?:s
ContainerResourceMetricSource 1name?:s 2target:MetricTarget 3container?:s
ContainerResourceMetricStatus 1name?:s 2current:MetricValueStatus 3container?:s
ContainerRestartRule 1action:s 2exitCodes?:ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes 1operator:s 2values*:i
ContainerState 1waiting?:ContainerStateWaiting 2running?:ContainerStateRunning 3terminated?:ContainerStateTerminated
ContainerStateRunning 1startedAt:@Time
ContainerStateTerminated 1exitCode?:i 2signal:i 3reason:s 4message:s 5startedAt:@Time 6finishedAt:@Time 7containerID:s
ContainerStateWaiting 1reason:s 2message:s
ContainerStatus 1name?:s 2state:ContainerState 3lastState:ContainerState 4ready?:b 5restartCount?:i 6image?:s
    7imageID?:s 8containerID:s 9started?:b 10allocatedResources{}:@Quantity 11resources?:ResourceRequirements
    12volumeMounts*:VolumeMountStatus 13user?:ContainerUser 14allocatedResourcesStatus*:ResourceStatus 15stopSignal?:s
ContainerUser 1linux?:LinuxContainerUser
ControllerRevision 1metadata:ObjectMeta 2data:@RawExtension 3revision?:i
CronJob 1metadata:ObjectMeta 2spec:CronJobSpec 3status:CronJobStatus
CronJobSpec 1schedule?:s 8timeZone?:s 2startingDeadlineSeconds?:i 3concurrencyPolicy:s 4suspend?:b
    5jobTemplate:JobTemplateSpec 6successfulJobsHistoryLimit?:i 7failedJobsHistoryLimit?:i
CronJobStatus 1active*:ObjectReference 4lastScheduleTime?:@Time 5lastSuccessfulTime?:@Time
CrossVersionObjectReference 1kind?:s 2name?:s 3apiVersion:s
CustomResourceColumnDefinition 1name?:s 2type?:s 3format:s 4description:s 5priority:i 6jsonPath?:s
CustomResourceConversion 1strategy?:s 2webhook?:WebhookConversion
CustomResourceDefinition 1metadata:ObjectMeta 2spec:CustomResourceDefinitionSpec
    3status:CustomResourceDefinitionStatus
CustomResourceDefinitionCondition 1type?:s 2status?:s 3lastTransitionTime:@Time 4reason:s 5message:s
CustomResourceDefinitionNames 1plural?:s 2singular:s 3shortNames*:s 4kind?:s 5listKind:s 6categories*:s
CustomResourceDefinitionSpec 1group?:s 3names:CustomResourceDefinitionNames 4scope?:s
    7versions*:CustomResourceDefinitionVersion 9conversion?:CustomResourceConversion 10preserveUnknownFields:b
CustomResourceDefinitionStatus 1conditions*:CustomResourceDefinitionCondition
    2acceptedNames:CustomResourceDefinitionNames 3storedVersions*:s
CustomResourceDefinitionVersion 1name?:s 2served?:b 3storage?:b 7deprecated:b 8deprecationWarning?:s
    4schema?:CustomResourceValidation 5subresources?:CustomResourceSubresources
    6additionalPrinterColumns*:CustomResourceColumnDefinition 9selectableFields*:SelectableField
CustomResourceSubresourceScale 1specReplicasPath?:s 2statusReplicasPath?:s 3labelSelectorPath?:s
CustomResourceSubresourceStatus
CustomResourceSubresources 1status?:CustomResourceSubresourceStatus 2scale?:CustomResourceSubresourceScale
CustomResourceValidation 1openAPIV3Schema?:JSONSchemaProps
DaemonSet 1metadata:ObjectMeta 2spec:DaemonSetSpec 3status:DaemonSetStatus
DaemonSetCondition 1type?:s 2status?:s 3lastTransitionTime:@Time 4reason:s 5message:s
DaemonSetSpec 1selector?:LabelSelector 2template:PodTemplateSpec 3updateStrategy:DaemonSetUpdateStrategy
    4minReadySeconds:i 6revisionHistoryLimit?:i
DaemonSetStatus 1currentNumberScheduled?:i 2numberMisscheduled?:i 3desiredNumberScheduled?:i 4numberReady?:i
    5observedGeneration:i 6updatedNumberScheduled:i 7numberAvailable:i 8numberUnavailable:i 9collisionCount?:i
    10conditions*:DaemonSetCondition
DaemonSetUpdateStrategy 1type:s 2rollingUpdate?:RollingUpdateDaemonSet
DeleteOptions 1gracePeriodSeconds?:i 2preconditions?:Preconditions 3orphanDependents?:b 4propagationPolicy?:s
    5dryRun*:s 6ignoreStoreReadErrorWithClusterBreakingPotential?:b
Deployment 1metadata:ObjectMeta 2spec:DeploymentSpec 3status:DeploymentStatus
DeploymentCondition 1type?:s 2status?:s 6lastUpdateTime:@Time 7lastTransitionTime:@Time 4reason:s 5message:s
DeploymentSpec 1replicas?:i 2selector?:LabelSelector 3template:PodTemplateSpec 4strategy:DeploymentStrategy
    5minReadySeconds:i 6revisionHistoryLimit?:i 7paused:b 9progressDeadlineSeconds?:i
DeploymentStatus 1observedGeneration:i 2replicas:i 3updatedReplicas:i 7readyReplicas:i 4availableReplicas:i
    5unavailableReplicas:i 9terminatingReplicas?:i 6conditions*:DeploymentCondition 8collisionCount?:i
DeploymentStrategy 1type:s 2rollingUpdate?:RollingUpdateDeployment
DownwardAPIProjection 1items*:DownwardAPIVolumeFile
DownwardAPIVolumeFile 1path?:s 2fieldRef?:ObjectFieldSelector 3resourceFieldRef?:ResourceFieldSelector 4mode?:i
DownwardAPIVolumeSource 1items*:DownwardAPIVolumeFile 2defaultMode?:i
EmptyDirVolumeSource 1medium:s 2sizeLimit?:@Quantity
EndpointAddress 1ip?:s 3hostname:s 4nodeName?:s 2targetRef?:ObjectReference
EndpointPort 1name:s 2port?:i 3protocol:s 4appProtocol?:s
EndpointSubset 1addresses*:EndpointAddress 2notReadyAddresses*:EndpointAddress 3ports*:EndpointPort
Endpoints 1metadata:ObjectMeta 2subsets*:EndpointSubset
EnvFromSource 1prefix:s 2configMapRef?:ConfigMapEnvSource 3secretRef?:SecretEnvSource
EnvVar 1name?:s 2value:s 3valueFrom?:EnvVarSource
EnvVarSource 1fieldRef?:ObjectFieldSelector 2resourceFieldRef?:ResourceFieldSelector
    3configMapKeyRef?:ConfigMapKeySelector 4secretKeyRef?:SecretKeySelector 5fileKeyRef?:FileKeySelector
EphemeralContainer 1:EphemeralContainerCommon 2targetContainerName:s
EphemeralContainerCommon 1name?:s 2image:s 3command*:s 4args*:s 5workingDir:s 6ports*:ContainerPort
    19envFrom*:EnvFromSource 7env*:EnvVar 8resources:ResourceRequirements 23resizePolicy*:ContainerResizePolicy
    24restartPolicy?:s 25restartPolicyRules*:ContainerRestartRule 9volumeMounts*:VolumeMount
    21volumeDevices*:VolumeDevice 10livenessProbe?:Probe 11readinessProbe?:Probe 22startupProbe?:Probe
    12lifecycle?:Lifecycle 13terminationMessagePath:s 20terminationMessagePolicy:s 14imagePullPolicy:s
    15securityContext?:SecurityContext 16stdin:b 17stdinOnce:b 18tty:b
EphemeralVolumeSource 1volumeClaimTemplate?:PersistentVolumeClaimTemplate
Event 1metadata:ObjectMeta 2involvedObject:ObjectReference 3reason:s 4message:s 5source:EventSource
    6firstTimestamp:@Time 7lastTimestamp:@Time 8count:i 9type:s 10eventTime:@MicroTime 11series?:EventSeries
    12action:s 13related?:ObjectReference 14reportingComponent?:s 15reportingInstance?:s
EventSeries 1count:i 2lastObservedTime:@MicroTime
EventSource 1component:s 2host:s
EventsEvent 1metadata:ObjectMeta 2eventTime:@MicroTime 3series?:EventsEventSeries 4reportingController:s
    5reportingInstance:s 6action:s 7reason:s 8regarding:ObjectReference 9related?:ObjectReference 10note:s 11type:s
    12deprecatedSource:EventSource 13deprecatedFirstTimestamp:@Time 14deprecatedLastTimestamp:@Time
    15deprecatedCount:i
EventsEventSeries 1count?:i 2lastObservedTime:@MicroTime
Eviction 1metadata:ObjectMeta 2deleteOptions?:DeleteOptions
ExecAction 1command*:s
ExternalDocumentation 1description:s 2url:s
ExternalMetricSource 1metric:MetricIdentifier 2target:MetricTarget
ExternalMetricStatus 1metric:MetricIdentifier 2current:MetricValueStatus
FCVolumeSource 1targetWWNs*:s 2lun?:i 3fsType:s 4readOnly:b 5wwids*:s
FieldSelectorAttributes 1rawSelector:s 2requirements*:FieldSelectorRequirement
FieldSelectorRequirement 1key?:s 2operator?:s 3values*:s
FileKeySelector 1volumeName?:s 2path?:s 3key?:s 4optional?:b
FlexPersistentVolumeSource 1driver?:s 2fsType:s 3secretRef?:SecretReference 4readOnly:b 5options{}:s
FlexVolumeSource 1driver?:s 2fsType:s 3secretRef?:LocalObjectReference 4readOnly:b 5options{}:s
FlockerVolumeSource 1datasetName:s 2datasetUUID:s
GCEPersistentDiskVolumeSource 1pdName?:s 2fsType:s 3partition:i 4readOnly:b
GRPCAction 1port?:i 2service?:s
GitRepoVolumeSource 1repository?:s 2revision:s 3directory:s
GlusterfsPersistentVolumeSource 1endpoints?:s 2path?:s 3readOnly:b 4endpointsNamespace?:s
GlusterfsVolumeSource 1endpoints?:s 2path?:s 3readOnly:b
HPAScalingPolicy 1type?:s 2value?:i 3periodSeconds?:i
HPAScalingRules 3stabilizationWindowSeconds?:i 1selectPolicy?:s 2policies*:HPAScalingPolicy 4tolerance?:@Quantity
HTTPGetAction 1path:s 2port:@IntOrString 3host:s 4scheme:s 5httpHeaders*:HTTPHeader
HTTPHeader 1name?:s 2value?:s
HTTPIngressPath 1path:s 3pathType?:s 2backend:IngressBackend
HTTPIngressRuleValue 1paths*:HTTPIngressPath
HorizontalPodAutoscaler 1metadata:ObjectMeta 2spec:HorizontalPodAutoscalerSpec 3status:HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerBehavior 1scaleUp?:HPAScalingRules 2scaleDown?:HPAScalingRules
HorizontalPodAutoscalerCondition 1type?:s 2status?:s 3lastTransitionTime:@Time 4reason:s 5message:s
HorizontalPodAutoscalerSpec 1scaleTargetRef:CrossVersionObjectReference 2minReplicas?:i 3maxReplicas?:i
    4metrics*:MetricSpec 5behavior?:HorizontalPodAutoscalerBehavior
HorizontalPodAutoscalerStatus 1observedGeneration?:i 2lastScaleTime?:@Time 3currentReplicas:i 4desiredReplicas?:i
    5currentMetrics*:MetricStatus 6conditions*:HorizontalPodAutoscalerCondition
HostAlias 1ip?:s 2hostnames*:s
HostIP 1ip?:s
HostPathVolumeSource 1path?:s 2type?:s
IPBlock 1cidr?:s 2except*:s
ISCSIPersistentVolumeSource 1targetPortal?:s 2iqn?:s 3lun?:i 4iscsiInterface:s 5fsType:s 6readOnly:b 7portals*:s
    8chapAuthDiscovery:b 11chapAuthSession:b 10secretRef?:SecretReference 12initiatorName?:s
ISCSIVolumeSource 1targetPortal?:s 2iqn?:s 3lun?:i 4iscsiInterface:s 5fsType:s 6readOnly:b 7portals*:s
    8chapAuthDiscovery:b 11chapAuthSession:b 10secretRef?:LocalObjectReference 12initiatorName?:s
ImageVolumeSource 1reference:s 2pullPolicy:s
Ingress 1metadata:ObjectMeta 2spec:IngressSpec 3status:IngressStatus
IngressBackend 4service?:IngressServiceBackend 3resource?:TypedLocalObjectReference
IngressClass 1metadata:ObjectMeta 2spec:IngressClassSpec
IngressClassParametersReference 1apiGroup?:s 2kind?:s 3name?:s 4scope?:s 5namespace?:s
IngressClassSpec 1controller:s 2parameters?:IngressClassParametersReference
IngressLoadBalancerIngress 1ip:s 2hostname:s 4ports*:IngressPortStatus
IngressLoadBalancerStatus 1ingress*:IngressLoadBalancerIngress
IngressPortStatus 1port?:i 2protocol?:s 3error?:s
IngressRule 1host:s 2:IngressRuleValue
IngressRuleValue 1http?:HTTPIngressRuleValue
IngressServiceBackend 1name?:s 2port:ServiceBackendPort
IngressSpec 4ingressClassName?:s 1defaultBackend?:IngressBackend 2tls*:IngressTLS 3rules*:IngressRule
IngressStatus 1loadBalancer:IngressLoadBalancerStatus
IngressTLS 1hosts*:s 2secretName:s
JSONSchemaProps 1id:s 2$schema:s 3$ref?:s 4description:s 5type:s 6format:s 7title:s 8default?:@JSON 9maximum?:f
    10exclusiveMaximum:b 11minimum?:f 12exclusiveMinimum:b 13maxLength?:i 14minLength?:i 15pattern:s 16maxItems?:i
    17minItems?:i 18uniqueItems:b 19multipleOf?:f 20enum*:@JSON 21maxProperties?:i 22minProperties?:i 23required*:s
    24items?:@JSONSchemaPropsOrArray 25allOf*:JSONSchemaProps 26oneOf*:JSONSchemaProps 27anyOf*:JSONSchemaProps
    28not?:JSONSchemaProps 29properties{}:JSONSchemaProps 30additionalProperties?:@JSONSchemaPropsOrBool
    31patternProperties{}:JSONSchemaProps 32dependencies{}:@JSONSchemaPropsOrStringArray
    33additionalItems?:@JSONSchemaPropsOrBool 34definitions{}:JSONSchemaProps 35externalDocs?:ExternalDocumentation
    36example?:@JSON 37nullable:b 38x-kubernetes-preserve-unknown-fields?:b 39x-kubernetes-embedded-resource:b
    40x-kubernetes-int-or-string:b 41x-kubernetes-list-map-keys*:s 42x-kubernetes-list-type?:s
    43x-kubernetes-map-type?:s 44x-kubernetes-validations*:ValidationRule
Job 1metadata:ObjectMeta 2spec:JobSpec 3status:JobStatus
JobCondition 1type?:s 2status?:s 3lastProbeTime:@Time 4lastTransitionTime:@Time 5reason:s 6message:s
JobSpec 1parallelism?:i 2completions?:i 3activeDeadlineSeconds?:i 11podFailurePolicy?:PodFailurePolicy
    16successPolicy?:SuccessPolicy 7backoffLimit?:i 12backoffLimitPerIndex?:i 13maxFailedIndexes?:i
    4selector?:LabelSelector 5manualSelector?:b 6template:PodTemplateSpec 8ttlSecondsAfterFinished?:i
    9completionMode?:s 10suspend?:b 14podReplacementPolicy?:s 15managedBy?:s
JobStatus 1conditions*:JobCondition 2startTime?:@Time 3completionTime?:@Time 4active:i 5succeeded:i 6failed:i
    11terminating?:i 7completedIndexes:s 10failedIndexes?:s 8uncountedTerminatedPods?:UncountedTerminatedPods
    9ready?:i
JobTemplateSpec 1metadata:ObjectMeta 2spec:JobSpec
KeyToPath 1key?:s 2path?:s 3mode?:i
LabelSelector 1matchLabels{}:s 2matchExpressions*:LabelSelectorRequirement
LabelSelectorAttributes 1rawSelector:s 2requirements*:LabelSelectorRequirement
LabelSelectorRequirement 1key?:s 2operator?:s 3values*:s
Lease 1metadata:ObjectMeta 2spec:LeaseSpec
LeaseSpec 1holderIdentity?:s 2leaseDurationSeconds?:i 3acquireTime?:@MicroTime 4renewTime?:@MicroTime
    5leaseTransitions?:i 6strategy?:s 7preferredHolder?:s
Lifecycle 1postStart?:LifecycleHandler 2preStop?:LifecycleHandler 3stopSignal?:s
LifecycleHandler 1exec?:ExecAction 2httpGet?:HTTPGetAction 3tcpSocket?:TCPSocketAction 4sleep?:SleepAction
LimitRange 1metadata:ObjectMeta 2spec:LimitRangeSpec
LimitRangeItem 1type?:s 2max{}:@Quantity 3min{}:@Quantity 4default{}:@Quantity 5defaultRequest{}:@Quantity
    6maxLimitRequestRatio{}:@Quantity
LimitRangeSpec 1limits*:LimitRangeItem
LinuxContainerUser 1uid?:i 2gid?:i 3supplementalGroups*:i
LoadBalancerIngress 1ip:s 2hostname:s 3ipMode?:s 4ports*:PortStatus
LoadBalancerStatus 1ingress*:LoadBalancerIngress
LocalObjectReference 1name:s
LocalSubjectAccessReview 1metadata:ObjectMeta 2spec:SubjectAccessReviewSpec 3status:SubjectAccessReviewStatus
LocalVolumeSource 1path?:s 2fsType?:s
ManagedFieldsEntry 1manager:s 2operation:s 3apiVersion:s 4time?:@Time 6fieldsType:s 7fieldsV1?:@FieldsV1
    8subresource:s
MetricIdentifier 1name?:s 2selector?:LabelSelector
MetricSpec 1type?:s 2object?:ObjectMetricSource 3pods?:PodsMetricSource 4resource?:ResourceMetricSource
    7containerResource?:ContainerResourceMetricSource 5external?:ExternalMetricSource
MetricStatus 1type?:s 2object?:ObjectMetricStatus 3pods?:PodsMetricStatus 4resource?:ResourceMetricStatus
    7containerResource?:ContainerResourceMetricStatus 5external?:ExternalMetricStatus
MetricTarget 1type?:s 2value?:@Quantity 3averageValue?:@Quantity 4averageUtilization?:i
MetricValueStatus 1value?:@Quantity 2averageValue?:@Quantity 3averageUtilization?:i
ModifyVolumeStatus 1targetVolumeAttributesClassName:s 2status?:s
NFSVolumeSource 1server?:s 2path?:s 3readOnly:b
Namespace 1metadata:ObjectMeta 2spec:NamespaceSpec 3status:NamespaceStatus
NamespaceCondition 1type?:s 2status?:s 4lastTransitionTime:@Time 5reason:s 6message:s
NamespaceSpec 1finalizers*:s
NamespaceStatus 1phase:s 2conditions*:NamespaceCondition
NetworkPolicy 1metadata:ObjectMeta 2spec:NetworkPolicySpec
NetworkPolicyEgressRule 1ports*:NetworkPolicyPort 2to*:NetworkPolicyPeer
NetworkPolicyIngressRule 1ports*:NetworkPolicyPort 2from*:NetworkPolicyPeer
NetworkPolicyPeer 1podSelector?:LabelSelector 2namespaceSelector?:LabelSelector 3ipBlock?:IPBlock
NetworkPolicyPort 1protocol?:s 2port?:@IntOrString 3endPort?:i
NetworkPolicySpec 1podSelector?:LabelSelector 2ingress*:NetworkPolicyIngressRule 3egress*:NetworkPolicyEgressRule
    4policyTypes*:s
NodeAffinity 1requiredDuringSchedulingIgnoredDuringExecution?:NodeSelector
    2preferredDuringSchedulingIgnoredDuringExecution*:PreferredSchedulingTerm
NodeSelector 1nodeSelectorTerms*:NodeSelectorTerm
NodeSelectorRequirement 1key?:s 2operator?:s 3values*:s
NodeSelectorTerm 1matchExpressions*:NodeSelectorRequirement 2matchFields*:NodeSelectorRequirement
NonResourceAttributes 1path:s 2verb:s
NonResourceRule 1verbs*:s 2nonResourceURLs*:s
ObjectFieldSelector 1apiVersion:s 2fieldPath?:s
ObjectMeta 1name:s 2generateName:s 3namespace:s 4selfLink:s 5uid:s 6resourceVersion:s 7generation:i
    8creationTimestamp:@Time 9deletionTimestamp?:@Time 10deletionGracePeriodSeconds?:i 11labels{}:s 12annotations{}:s
    13ownerReferences*:OwnerReference 14finalizers*:s 17managedFields*:ManagedFieldsEntry
ObjectMetricSource 1describedObject:CrossVersionObjectReference 2target:MetricTarget 3metric:MetricIdentifier
ObjectMetricStatus 1metric:MetricIdentifier 2current:MetricValueStatus 3describedObject:CrossVersionObjectReference
ObjectReference 1kind:s 2namespace:s 3name:s 4uid:s 5apiVersion:s 6resourceVersion:s 7fieldPath:s
OwnerReference 5apiVersion?:s 1kind?:s 3name?:s 4uid?:s 6controller?:b 7blockOwnerDeletion?:b
PersistentVolume 1metadata:ObjectMeta 2spec:PersistentVolumeSpec 3status:PersistentVolumeStatus
PersistentVolumeClaim 1metadata:ObjectMeta 2spec:PersistentVolumeClaimSpec 3status:PersistentVolumeClaimStatus
PersistentVolumeClaimCondition 1type?:s 2status?:s 3lastProbeTime:@Time 4lastTransitionTime:@Time 5reason:s 6message:s
PersistentVolumeClaimSpec 1accessModes*:s 4selector?:LabelSelector 2resources:VolumeResourceRequirements 3volumeName:s
    5storageClassName?:s 6volumeMode?:s 7dataSource?:TypedLocalObjectReference 8dataSourceRef?:TypedObjectReference
    9volumeAttributesClassName?:s
PersistentVolumeClaimStatus 1phase:s 2accessModes*:s 3capacity{}:@Quantity 4conditions*:PersistentVolumeClaimCondition
    5allocatedResources{}:@Quantity 7allocatedResourceStatuses{}:s 8currentVolumeAttributesClassName?:s
    9modifyVolumeStatus?:ModifyVolumeStatus
PersistentVolumeClaimTemplate 1metadata:ObjectMeta 2spec:PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource 1claimName?:s 2readOnly:b
PersistentVolumeSource 1gcePersistentDisk?:GCEPersistentDiskVolumeSource
    2awsElasticBlockStore?:AWSElasticBlockStoreVolumeSource 3hostPath?:HostPathVolumeSource
    4glusterfs?:GlusterfsPersistentVolumeSource 5nfs?:NFSVolumeSource 6rbd?:RBDPersistentVolumeSource
    7iscsi?:ISCSIPersistentVolumeSource 8cinder?:CinderPersistentVolumeSource 9cephfs?:CephFSPersistentVolumeSource
    10fc?:FCVolumeSource 11flocker?:FlockerVolumeSource 12flexVolume?:FlexPersistentVolumeSource
    13azureFile?:AzureFilePersistentVolumeSource 14vsphereVolume?:VsphereVirtualDiskVolumeSource
    15quobyte?:QuobyteVolumeSource 16azureDisk?:AzureDiskVolumeSource
    17photonPersistentDisk?:PhotonPersistentDiskVolumeSource 18portworxVolume?:PortworxVolumeSource
    19scaleIO?:ScaleIOPersistentVolumeSource 20local?:LocalVolumeSource 21storageos?:StorageOSPersistentVolumeSource
    22csi?:CSIPersistentVolumeSource
PersistentVolumeSpec 1capacity{}:@Quantity 2:PersistentVolumeSource 3accessModes*:s 4claimRef?:ObjectReference
    5persistentVolumeReclaimPolicy:s 6storageClassName:s 7mountOptions*:s 8volumeMode?:s
    9nodeAffinity?:VolumeNodeAffinity 10volumeAttributesClassName?:s
PersistentVolumeStatus 1phase:s 2message:s 3reason:s 4lastPhaseTransitionTime?:@Time
PhotonPersistentDiskVolumeSource 1pdID?:s 2fsType:s
Pod 1metadata:ObjectMeta 2spec:PodSpec 3status:PodStatus
PodAffinity 1requiredDuringSchedulingIgnoredDuringExecution*:PodAffinityTerm
    2preferredDuringSchedulingIgnoredDuringExecution*:WeightedPodAffinityTerm
PodAffinityTerm 1labelSelector?:LabelSelector 2namespaces*:s 3topologyKey?:s 4namespaceSelector?:LabelSelector
    5matchLabelKeys*:s 6mismatchLabelKeys*:s
PodAntiAffinity 1requiredDuringSchedulingIgnoredDuringExecution*:PodAffinityTerm
    2preferredDuringSchedulingIgnoredDuringExecution*:WeightedPodAffinityTerm
PodCertificateProjection 1signerName:s 2keyType:s 3maxExpirationSeconds?:i 4credentialBundlePath:s 5keyPath:s
    6certificateChainPath:s
PodCondition 1type?:s 7observedGeneration:i 2status?:s 3lastProbeTime:@Time 4lastTransitionTime:@Time 5reason:s
    6message:s
PodDNSConfig 1nameservers*:s 2searches*:s 3options*:PodDNSConfigOption
PodDNSConfigOption 1name:s 2value?:s
PodDisruptionBudget 1metadata:ObjectMeta 2spec:PodDisruptionBudgetSpec 3status:PodDisruptionBudgetStatus
PodDisruptionBudgetSpec 1minAvailable?:@IntOrString 2selector?:LabelSelector 3maxUnavailable?:@IntOrString
    4unhealthyPodEvictionPolicy?:s
PodDisruptionBudgetStatus 1observedGeneration:i 2disruptedPods{}:@Time 3disruptionsAllowed?:i 4currentHealthy?:i
    5desiredHealthy?:i 6expectedPods?:i 7conditions*:Condition
PodExtendedResourceClaimStatus 1requestMappings*:ContainerExtendedResourceRequest 2resourceClaimName?:s
PodFailurePolicy 1rules*:PodFailurePolicyRule
PodFailurePolicyOnExitCodesRequirement 1containerName?:s 2operator?:s 3values*:i
PodFailurePolicyOnPodConditionsPattern 1type?:s 2status?:s
PodFailurePolicyRule 1action?:s 2onExitCodes?:PodFailurePolicyOnExitCodesRequirement
    3onPodConditions*:PodFailurePolicyOnPodConditionsPattern
PodIP 1ip?:s
PodOS 1name?:s
PodReadinessGate 1conditionType?:s
PodResourceClaim 1name?:s 3resourceClaimName?:s 4resourceClaimTemplateName?:s
PodResourceClaimStatus 1name?:s 2resourceClaimName?:s
PodSchedulingGate 1name?:s
PodSecurityContext 1seLinuxOptions?:SELinuxOptions 8windowsOptions?:WindowsSecurityContextOptions 2runAsUser?:i
    6runAsGroup?:i 3runAsNonRoot?:b 4supplementalGroups*:i 12supplementalGroupsPolicy?:s 5fsGroup?:i 7sysctls*:Sysctl
    9fsGroupChangePolicy?:s 10seccompProfile?:SeccompProfile 11appArmorProfile?:AppArmorProfile
    13seLinuxChangePolicy?:s
PodSpec 1volumes*:Volume 20initContainers*:Container 2containers*:Container 34ephemeralContainers*:EphemeralContainer
    3restartPolicy:s 4terminationGracePeriodSeconds?:i 5activeDeadlineSeconds?:i 6dnsPolicy:s 7nodeSelector{}:s
    8serviceAccountName:s 9serviceAccount:s 21automountServiceAccountToken?:b 10nodeName:s 11hostNetwork:b 12hostPID:b
    13hostIPC:b 27shareProcessNamespace?:b 14securityContext?:PodSecurityContext
    15imagePullSecrets*:LocalObjectReference 16hostname:s 17subdomain:s 18affinity?:Affinity 19schedulerName:s
    22tolerations*:Toleration 23hostAliases*:HostAlias 24priorityClassName:s 25priority?:i 26dnsConfig?:PodDNSConfig
    28readinessGates*:PodReadinessGate 29runtimeClassName?:s 30enableServiceLinks?:b 31preemptionPolicy?:s
    32overhead{}:@Quantity 33topologySpreadConstraints*:TopologySpreadConstraint 35setHostnameAsFQDN?:b 36os?:PodOS
    37hostUsers?:b 38schedulingGates*:PodSchedulingGate 39resourceClaims*:PodResourceClaim
    40resources?:ResourceRequirements 41hostnameOverride?:s
PodStatus 17observedGeneration:i 1phase:s 2conditions*:PodCondition 3message:s 4reason:s 11nominatedNodeName:s
    5hostIP:s 16hostIPs*:HostIP 6podIP:s 12podIPs*:PodIP 7startTime?:@Time 10initContainerStatuses*:ContainerStatus
    8containerStatuses*:ContainerStatus 9qosClass:s 13ephemeralContainerStatuses*:ContainerStatus 14resize:s
    15resourceClaimStatuses*:PodResourceClaimStatus 18extendedResourceClaimStatus?:PodExtendedResourceClaimStatus
PodTemplate 1metadata:ObjectMeta 2template:PodTemplateSpec
PodTemplateSpec 1metadata:ObjectMeta 2spec:PodSpec
PodsMetricSource 1metric:MetricIdentifier 2target:MetricTarget
PodsMetricStatus 1metric:MetricIdentifier 2current:MetricValueStatus
PolicyRule 1verbs*:s 2apiGroups*:s 3resources*:s 4resourceNames*:s 5nonResourceURLs*:s
PortStatus 1port?:i 2protocol?:s 3error?:s
PortworxVolumeSource 1volumeID?:s 2fsType:s 3readOnly:b
Preconditions 1uid?:s 2resourceVersion?:s
PreferredSchedulingTerm 1weight?:i 2preference:NodeSelectorTerm
PriorityClass 1metadata:ObjectMeta 2value?:i 3globalDefault:b 4description:s 5preemptionPolicy?:s
Probe 1:ProbeHandler 2initialDelaySeconds:i 3timeoutSeconds:i 4periodSeconds:i 5successThreshold:i 6failureThreshold:i
    7terminationGracePeriodSeconds?:i
ProbeHandler 1exec?:ExecAction 2httpGet?:HTTPGetAction 3tcpSocket?:TCPSocketAction 4grpc?:GRPCAction
ProjectedVolumeSource 1sources*:VolumeProjection 2defaultMode?:i
QuobyteVolumeSource 1registry?:s 2volume?:s 3readOnly:b 4user:s 5group:s 6tenant:s
RBDPersistentVolumeSource 1monitors*:s 2image?:s 3fsType:s 4pool:s 5user:s 6keyring:s 7secretRef?:SecretReference
    8readOnly:b
RBDVolumeSource 1monitors*:s 2image?:s 3fsType:s 4pool:s 5user:s 6keyring:s 7secretRef?:LocalObjectReference
    8readOnly:b
ReplicaSet 1metadata:ObjectMeta 2spec:ReplicaSetSpec 3status:ReplicaSetStatus
ReplicaSetCondition 1type?:s 2status?:s 3lastTransitionTime:@Time 4reason:s 5message:s
ReplicaSetSpec 1replicas?:i 4minReadySeconds:i 2selector?:LabelSelector 3template:PodTemplateSpec
ReplicaSetStatus 1replicas?:i 2fullyLabeledReplicas:i 4readyReplicas:i 5availableReplicas:i 7terminatingReplicas?:i
    3observedGeneration:i 6conditions*:ReplicaSetCondition
ReplicationController 1metadata:ObjectMeta 2spec:ReplicationControllerSpec 3status:ReplicationControllerStatus
ReplicationControllerCondition 1type?:s 2status?:s 3lastTransitionTime:@Time 4reason:s 5message:s
ReplicationControllerSpec 1replicas?:i 4minReadySeconds:i 2selector{}:s 3template?:PodTemplateSpec
ReplicationControllerStatus 1replicas?:i 2fullyLabeledReplicas:i 4readyReplicas:i 5availableReplicas:i
    3observedGeneration:i 6conditions*:ReplicationControllerCondition
ResourceAttributes 1namespace:s 2verb:s 3group:s 4version:s 5resource:s 6subresource:s 7name:s
    8fieldSelector?:FieldSelectorAttributes 9labelSelector?:LabelSelectorAttributes
ResourceClaim 1name?:s 2request:s
ResourceFieldSelector 1containerName:s 2resource?:s 3divisor:@Quantity
ResourceHealth 1resourceID?:s 2health:s
ResourceMetricSource 1name?:s 2target:MetricTarget
ResourceMetricStatus 1name?:s 2current:MetricValueStatus
ResourceQuota 1metadata:ObjectMeta 2spec:ResourceQuotaSpec 3status:ResourceQuotaStatus
ResourceQuotaSpec 1hard{}:@Quantity 2scopes*:s 3scopeSelector?:ScopeSelector
ResourceQuotaStatus 1hard{}:@Quantity 2used{}:@Quantity
ResourceRequirements 1limits{}:@Quantity 2requests{}:@Quantity 3claims*:ResourceClaim
ResourceRule 1verbs*:s 2apiGroups*:s 3resources*:s 4resourceNames*:s
ResourceStatus 1name?:s 2resources*:ResourceHealth
Role 1metadata:ObjectMeta 2rules*:PolicyRule
RoleBinding 1metadata:ObjectMeta 2subjects*:Subject 3roleRef:RoleRef
RoleRef 1apiGroup?:s 2kind?:s 3name?:s
RollingUpdateDaemonSet 1maxUnavailable?:@IntOrString 2maxSurge?:@IntOrString
RollingUpdateDeployment 1maxUnavailable?:@IntOrString 2maxSurge?:@IntOrString
RollingUpdateStatefulSetStrategy 1partition?:i 2maxUnavailable?:@IntOrString
SELinuxOptions 1user:s 2role:s 3type:s 4level:s
Scale 1metadata:ObjectMeta 2spec:ScaleSpec 3status:ScaleStatus
ScaleIOPersistentVolumeSource 1gateway?:s 2system?:s 3secretRef?:SecretReference 4sslEnabled:b 5protectionDomain:s
    6storagePool:s 7storageMode:s 8volumeName:s 9fsType:s 10readOnly:b
ScaleIOVolumeSource 1gateway?:s 2system?:s 3secretRef?:LocalObjectReference 4sslEnabled:b 5protectionDomain:s
    6storagePool:s 7storageMode:s 8volumeName:s 9fsType:s 10readOnly:b
ScaleSpec 1replicas:i
ScaleStatus 1replicas?:i 2selector:s
ScopeSelector 1matchExpressions*:ScopedResourceSelectorRequirement
ScopedResourceSelectorRequirement 1scopeName?:s 2operator?:s 3values*:s
SeccompProfile 1type?:s 2localhostProfile?:s
Secret 1metadata:ObjectMeta 5immutable?:b 2data{}:y 4stringData{}:s 3type:s
SecretEnvSource 1:LocalObjectReference 2optional?:b
SecretKeySelector 1:LocalObjectReference 2key?:s 3optional?:b
SecretProjection 1:LocalObjectReference 2items*:KeyToPath 4optional?:b
SecretReference 1name:s 2namespace:s
SecretVolumeSource 1secretName:s 2items*:KeyToPath 3defaultMode?:i 4optional?:b
SecurityContext 1capabilities?:Capabilities 2privileged?:b 3seLinuxOptions?:SELinuxOptions
    10windowsOptions?:WindowsSecurityContextOptions 4runAsUser?:i 8runAsGroup?:i 5runAsNonRoot?:b
    6readOnlyRootFilesystem?:b 7allowPrivilegeEscalation?:b 9procMount?:s 11seccompProfile?:SeccompProfile
    12appArmorProfile?:AppArmorProfile
SelectableField 1jsonPath?:s
SelfSubjectAccessReview 1metadata:ObjectMeta 2spec:SelfSubjectAccessReviewSpec 3status:SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec 1resourceAttributes?:ResourceAttributes 2nonResourceAttributes?:NonResourceAttributes
SelfSubjectReview 1metadata:ObjectMeta 2status:SelfSubjectReviewStatus
SelfSubjectReviewStatus 1userInfo:UserInfo
SelfSubjectRulesReview 1metadata:ObjectMeta 2spec:SelfSubjectRulesReviewSpec 3status:SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec 1namespace:s
Service 1metadata:ObjectMeta 2spec:ServiceSpec 3status:ServiceStatus
ServiceAccount 1metadata:ObjectMeta 2secrets*:ObjectReference 3imagePullSecrets*:LocalObjectReference
    4automountServiceAccountToken?:b
ServiceAccountTokenProjection 1audience:s 2expirationSeconds?:i 3path?:s
ServiceBackendPort 1name:s 2number:i
ServicePort 1name:s 2protocol:s 6appProtocol?:s 3port?:i 4targetPort:@IntOrString 5nodePort:i
ServiceReference 1namespace?:s 2name?:s 3path?:s 4port?:i
ServiceSpec 1ports*:ServicePort 2selector{}:s 3clusterIP:s 18clusterIPs*:s 4type:s 5externalIPs*:s 7sessionAffinity:s
    8loadBalancerIP:s 9loadBalancerSourceRanges*:s 10externalName:s 11externalTrafficPolicy:s 12healthCheckNodePort:i
    13publishNotReadyAddresses:b 14sessionAffinityConfig?:SessionAffinityConfig 19ipFamilies*:s 17ipFamilyPolicy?:s
    20allocateLoadBalancerNodePorts?:b 21loadBalancerClass?:s 22internalTrafficPolicy?:s 23trafficDistribution?:s
ServiceStatus 1loadBalancer:LoadBalancerStatus 2conditions*:Condition
SessionAffinityConfig 1clientIP?:ClientIPConfig
SleepAction 1seconds?:i
StatefulSet 1metadata:ObjectMeta 2spec:StatefulSetSpec 3status:StatefulSetStatus
StatefulSetCondition 1type?:s 2status?:s 3lastTransitionTime:@Time 4reason:s 5message:s
StatefulSetOrdinals 1start?:i
StatefulSetPersistentVolumeClaimRetentionPolicy 1whenDeleted:s 2whenScaled:s
StatefulSetSpec 1replicas?:i 2selector?:LabelSelector 3template:PodTemplateSpec
    4volumeClaimTemplates*:PersistentVolumeClaim 5serviceName?:s 6podManagementPolicy:s
    7updateStrategy:StatefulSetUpdateStrategy 8revisionHistoryLimit?:i 9minReadySeconds:i
    10persistentVolumeClaimRetentionPolicy?:StatefulSetPersistentVolumeClaimRetentionPolicy
    11ordinals?:StatefulSetOrdinals
StatefulSetStatus 1observedGeneration:i 2replicas?:i 3readyReplicas:i 4currentReplicas:i 5updatedReplicas:i
    6currentRevision:s 7updateRevision:s 9collisionCount?:i 10conditions*:StatefulSetCondition 11availableReplicas?:i
StatefulSetUpdateStrategy 1type:s 2rollingUpdate?:RollingUpdateStatefulSetStrategy
StorageClass 1metadata:ObjectMeta 2provisioner?:s 3parameters{}:s 4reclaimPolicy?:s 5mountOptions*:s
    6allowVolumeExpansion?:b 7volumeBindingMode?:s 8allowedTopologies*:TopologySelectorTerm
StorageOSPersistentVolumeSource 1volumeName:s 2volumeNamespace:s 3fsType:s 4readOnly:b 5secretRef?:ObjectReference
StorageOSVolumeSource 1volumeName:s 2volumeNamespace:s 3fsType:s 4readOnly:b 5secretRef?:LocalObjectReference
Subject 1kind?:s 2apiGroup:s 3name?:s 4namespace:s
SubjectAccessReview 1metadata:ObjectMeta 2spec:SubjectAccessReviewSpec 3status:SubjectAccessReviewStatus
SubjectAccessReviewSpec 1resourceAttributes?:ResourceAttributes 2nonResourceAttributes?:NonResourceAttributes 3user:s
    4groups*:s 5extra{}:@strings 6uid:s
SubjectAccessReviewStatus 1allowed?:b 4denied:b 2reason:s 3evaluationError:s
SubjectRulesReviewStatus 1resourceRules*:ResourceRule 2nonResourceRules*:NonResourceRule 3incomplete?:b
    4evaluationError:s
SuccessPolicy 1rules*:SuccessPolicyRule
SuccessPolicyRule 1succeededIndexes?:s 2succeededCount?:i
Sysctl 1name?:s 2value?:s
TCPSocketAction 1port:@IntOrString 2host:s
TokenRequest 1metadata:ObjectMeta 2spec:TokenRequestSpec 3status:TokenRequestStatus
TokenRequestSpec 1audiences*:s 4expirationSeconds?:i 3boundObjectRef?:BoundObjectReference
TokenRequestStatus 1token?:s 2expirationTimestamp:@Time
TokenReview 1metadata:ObjectMeta 2spec:TokenReviewSpec 3status:TokenReviewStatus
TokenReviewSpec 1token:s 2audiences*:s
TokenReviewStatus 1authenticated:b 2user:UserInfo 4audiences*:s 3error:s
Toleration 1key:s 2operator:s 3value:s 4effect:s 5tolerationSeconds?:i
TopologySelectorLabelRequirement 1key?:s 2values*:s
TopologySelectorTerm 1matchLabelExpressions*:TopologySelectorLabelRequirement
TopologySpreadConstraint 1maxSkew?:i 2topologyKey?:s 3whenUnsatisfiable?:s 4labelSelector?:LabelSelector
    5minDomains?:i 6nodeAffinityPolicy?:s 7nodeTaintsPolicy?:s 8matchLabelKeys*:s
TypedLocalObjectReference 1apiGroup?:s 2kind?:s 3name?:s
TypedObjectReference 1apiGroup?:s 2kind?:s 3name?:s 4namespace?:s
UncountedTerminatedPods 1succeeded*:s 2failed*:s
UserInfo 1username:s 2uid:s 3groups*:s 4extra{}:@strings
ValidationRule 1rule?:s 2message:s 3messageExpression:s 4reason?:s 5fieldPath:s 6optionalOldSelf?:b
Volume 1name?:s 2:VolumeSource
VolumeDevice 1name?:s 2devicePath?:s
VolumeMount 1name?:s 2readOnly:b 7recursiveReadOnly?:s 3mountPath?:s 4subPath:s 5mountPropagation?:s 6subPathExpr:s
VolumeMountStatus 1name?:s 2mountPath?:s 3readOnly:b 4recursiveReadOnly?:s
VolumeNodeAffinity 1required?:NodeSelector
VolumeProjection 1secret?:SecretProjection 2downwardAPI?:DownwardAPIProjection 3configMap?:ConfigMapProjection
    4serviceAccountToken?:ServiceAccountTokenProjection 5clusterTrustBundle?:ClusterTrustBundleProjection
    6podCertificate?:PodCertificateProjection
VolumeResourceRequirements 1limits{}:@Quantity 2requests{}:@Quantity
VolumeSource 1hostPath?:HostPathVolumeSource 2emptyDir?:EmptyDirVolumeSource
    3gcePersistentDisk?:GCEPersistentDiskVolumeSource 4awsElasticBlockStore?:AWSElasticBlockStoreVolumeSource
    5gitRepo?:GitRepoVolumeSource 6secret?:SecretVolumeSource 7nfs?:NFSVolumeSource 8iscsi?:ISCSIVolumeSource
    9glusterfs?:GlusterfsVolumeSource 10persistentVolumeClaim?:PersistentVolumeClaimVolumeSource
    11rbd?:RBDVolumeSource 12flexVolume?:FlexVolumeSource 13cinder?:CinderVolumeSource 14cephfs?:CephFSVolumeSource
    15flocker?:FlockerVolumeSource 16downwardAPI?:DownwardAPIVolumeSource 17fc?:FCVolumeSource
    18azureFile?:AzureFileVolumeSource 19configMap?:ConfigMapVolumeSource
    20vsphereVolume?:VsphereVirtualDiskVolumeSource 21quobyte?:QuobyteVolumeSource 22azureDisk?:AzureDiskVolumeSource
    23photonPersistentDisk?:PhotonPersistentDiskVolumeSource 26projected?:ProjectedVolumeSource
    24portworxVolume?:PortworxVolumeSource 25scaleIO?:ScaleIOVolumeSource 27storageos?:StorageOSVolumeSource
    28csi?:CSIVolumeSource 29ephemeral?:EphemeralVolumeSource 30image?:ImageVolumeSource
VsphereVirtualDiskVolumeSource 1volumePath?:s 2fsType:s 3storagePolicyName:s 4storagePolicyID:s
WebhookClientConfig 3url?:s 1service?:ServiceReference 2caBundle:y
WebhookConversion 2clientConfig?:WebhookClientConfig 3conversionReviewVersions*:s
WeightedPodAffinityTerm 1weight?:i 2podAffinityTerm:PodAffinityTerm
WindowsSecurityContextOptions 1gmsaCredentialSpecName?:s 2gmsaCredentialSpec?:s 3runAsUserName?:s 4hostProcess?:b
"""

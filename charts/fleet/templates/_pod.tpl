{{/* Common parts of the chart's pods. Each template takes (dict "root" $ "part" "controller"). */}}

{{- define "fleet.deployment" -}}
{{- $of := index .root.Values .part -}}
replicas: {{ $of.replicas }}
selector:
  matchLabels:
    {{- include "fleet.selector" . | nindent 4 }}
{{- if or (include "fleet.sharesVolume" .root) (and (eq .part "controller") (include "fleet.isSqlite" .root)) }}
# Only one pod may write the file. And the volume may have to move: a pod that stays until its successor is ready would
# keep both components on its node, where the successor may not fit or may not be allowed any more.
strategy:
  type: Recreate
{{- else }}
# Complete, although it is almost the default: omitted fields would keep their values when the type changes.
strategy:
  type: RollingUpdate
  rollingUpdate:
    maxSurge: 1
    maxUnavailable: 0
{{- end }}
{{- end -}}

{{- define "fleet.podMetadata" -}}
{{- $of := index .root.Values .part -}}
labels:
  {{- include "fleet.selector" . | nindent 2 }}
  {{- with merge dict $of.podLabels .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  # Settings are read at startup, so a change must restart the pod. A certificate is reloaded without a restart.
  checksum/settings: {{ include "fleet.configuration" .root | sha256sum }}
  {{- with $of.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The pod spec of any pod: (dict "root" $ "account" "name" "token" true). */}}
{{- define "fleet.podBasics" -}}
serviceAccountName: {{ .account }}
automountServiceAccountToken: {{ .token }}
# Variables with the addresses of Services are not needed.
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- if .root.Values.fixedUser }}
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  {{- end }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{/* The pod of a long-running component. */}}
{{- define "fleet.podOfRole" -}}
{{- $of := index .root.Values .part -}}
{{- include "fleet.podBasics" (dict "root" .root "account" (include "fleet.serviceAccount" .) "token" true) }}
{{- with $of.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $of.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $of.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "fleet.affinity" . | fromYaml }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "fleet.spread" . | fromYamlArray }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The constraints of the values; by default several replicas are spread as far as possible. */}}
{{- define "fleet.spread" -}}
{{- $of := index .root.Values .part -}}
{{- if $of.topologySpreadConstraints -}}
{{- toYaml $of.topologySpreadConstraints -}}
{{- else if gt (int $of.replicas) 1 -}}
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- topologyKey: {{ $key }}
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "fleet.selector" $ | nindent 6 }}
{{- end }}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{/*
The affinity of the values, and one node for all pods that share the volume: a ReadWriteOnce volume is attached to one
node, and SQLite shares its write-ahead log through the memory of one kernel. Both roles ask for it alike, so that the
node is free to be any that the first of them is put on.
*/}}
{{- define "fleet.affinity" -}}
{{- $affinity := deepCopy (index .root.Values .part).affinity -}}
{{- if include "fleet.sharesVolume" .root -}}
{{- $pods := default dict $affinity.podAffinity -}}
{{- $terms := default list $pods.requiredDuringSchedulingIgnoredDuringExecution -}}
{{- $terms = append $terms (include "fleet.together" .root | fromYaml) -}}
{{- $_ := set $affinity "podAffinity" (set $pods "requiredDuringSchedulingIgnoredDuringExecution" $terms) -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}

{{- define "fleet.together" -}}
topologyKey: kubernetes.io/hostname
labelSelector:
  matchLabels:
    app.kubernetes.io/name: {{ include "fleet.name" . }}
    app.kubernetes.io/instance: {{ .Release.Name | quote }}
  matchExpressions:
    - key: app.kubernetes.io/component
      operator: In
      values: [controller, api]
{{- end -}}

{{/* Common parts of all containers: takes the root. */}}
{{- define "fleet.container" -}}
{{- $image := .Values.image -}}
{{- $name := printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
image: {{ $image.digest | empty | ternary $name (printf "%s@%s" $image.repository $image.digest) | quote }}
imagePullPolicy: {{ $image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "fleet.environment" -}}
{{- with concat (include "fleet.historyVariable" . | fromYamlArray) (index .root.Values .part).extraEnv -}}
env:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* Startup may be slow on a large hub; later, a minute without an answer warrants a restart. */}}
{{- define "fleet.probes" -}}
{{- $get := dict "port" .port "scheme" (upper .scheme) -}}
startupProbe:
  httpGet:
    {{- toYaml (merge (dict "path" "/livez") $get) | nindent 4 }}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet:
    {{- toYaml (merge (dict "path" "/livez") $get) | nindent 4 }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
    {{- toYaml (merge (dict "path" "/readyz") $get) | nindent 4 }}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{- define "fleet.mounts" -}}
- name: settings
  mountPath: /etc/fleet
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- include "fleet.historyMounts" . }}
{{- end -}}

{{- define "fleet.tmp" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ .Values.tmp.sizeLimit }}
{{- end -}}

{{/*
Resources of a container in the controller's pod: (dict "root" $ "of" .Values.controller.resources). A history in the pod
counts as ephemeral storage, and its volume has a limit of its own.
*/}}
{{- define "fleet.controllerResources" -}}
{{- $of := deepCopy .of -}}
{{- if and (include "fleet.isSqlite" .root) (not (include "fleet.hasVolume" .root)) -}}
{{- $_ := unset (default dict $of.limits) "ephemeral-storage" -}}
{{- end -}}
{{- toYaml $of -}}
{{- end -}}

{{- define "fleet.volumes" -}}
- name: settings
  configMap:
    name: {{ include "fleet.part" (dict "root" .root "part" "settings") }}
{{ include "fleet.tmp" .root }}
{{- include "fleet.historyVolumes" . }}
{{- with (index .root.Values .part).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

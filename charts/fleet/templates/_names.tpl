{{/* Names and labels for all other templates. */}}

{{- define "fleet.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/*
Cut so short that with the longest of our suffixes no name passes 63 characters. Releases may have dots in their names,
and Services may not.
*/}}
{{- define "fleet.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $usual := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- default $usual .Values.fullnameOverride | replace "." "-" | trunc 51 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of an object: (dict "root" $ "part" "controller"). */}}
{{- define "fleet.part" -}}
{{- printf "%s-%s" (include "fleet.fullname" .root) .part -}}
{{- end -}}

{{- define "fleet.serviceAccount" -}}
{{- $account := (index .root.Values .part).serviceAccount -}}
{{- default ($account.create | ternary (include "fleet.part" .) "default") $account.name -}}
{{- end -}}

{{- define "fleet.lease" -}}
{{- $usual := eq .Values.mode "full" | ternary "136224848560.hub.fleet.azure.com" "fleet-scheduler" -}}
{{- default $usual .Values.leaderElection.name -}}
{{- end -}}

{{/* What runs, as a JSON list. */}}
{{- define "fleet.parts" -}}
{{- $parts := list -}}
{{- if include "fleet.decides" . }}{{ $parts = append $parts "controller" }}{{ end -}}
{{- if .Values.api.enabled }}{{ $parts = append $parts "api" }}{{ end -}}
{{- toJson $parts -}}
{{- end -}}

{{/* Whether a controller runs. */}}
{{- define "fleet.decides" -}}
{{- if ne .Values.mode "explain-only" }}true{{ end -}}
{{- end -}}

{{/* Without a controller nothing is recorded. */}}
{{- define "fleet.historyType" -}}
{{- if include "fleet.decides" . }}{{ .Values.history.type }}{{ else }}none{{ end -}}
{{- end -}}

{{/* `off` without quotes is `false` in YAML. */}}
{{- define "fleet.tls" -}}
{{- .Values.api.tls.mode | toString | replace "false" "off" -}}
{{- end -}}

{{- define "fleet.certificate" -}}
{{- if eq (include "fleet.tls" .) "secret" -}}
{{- .Values.api.tls.existingSecret -}}
{{- else -}}
{{- include "fleet.part" (dict "root" . "part" "api-tls") -}}
{{- end -}}
{{- end -}}

{{- define "fleet.apiScheme" -}}
{{- eq (include "fleet.tls" .) "off" | ternary "http" "https" -}}
{{- end -}}

{{/* The selector of a component's pods; constant during the life of a release. */}}
{{- define "fleet.selector" -}}
app.kubernetes.io/name: {{ include "fleet.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{/* `labels` adds labels, which override those for all objects. */}}
{{- define "fleet.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "fleet.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with merge dict (default dict .labels) .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The content of `metadata`. */}}
{{- define "fleet.metadata" -}}
name: {{ include "fleet.part" . }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "fleet.labels" . | nindent 2 }}
{{- end -}}

{{/* Likewise for cluster-scoped objects. */}}
{{- define "fleet.clusterMetadata" -}}
name: {{ include "fleet.part" . }}
labels:
  {{- include "fleet.labels" . | nindent 2 }}
{{- end -}}

{{/* Whether an object from `lookup` belongs to this release: (dict "root" $ "object" object). Empty if not. */}}
{{- define "fleet.owns" -}}
{{- $annotations := dig "metadata" "annotations" dict .object -}}
{{- $name := index $annotations "meta.helm.sh/release-name" -}}
{{- $namespace := index $annotations "meta.helm.sh/release-namespace" -}}
{{- if and (eq (default "" $name) .root.Release.Name) (eq (default "" $namespace) .root.Release.Namespace) -}}
true
{{- end -}}
{{- end -}}

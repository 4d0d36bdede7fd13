{{/* The settings file, and values derived from it. */}}

{{- define "fleet.settings" -}}
{{- $lease := dict "resourceName" (include "fleet.lease" .) "resourceNamespace" .Values.leaderElection.namespace -}}
{{- $derived := include "fleet.decides" . | empty | ternary dict (dict "leaderElection" $lease) -}}
{{- if not .Values.rbac.selectableSecrets }}{{ $_ := set $derived "selection" (dict "secrets" false) }}{{ end -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.settings) $derived) -}}
{{- end -}}

{{/* Of the probes and metrics of the controller. */}}
{{- define "fleet.controllerScheme" -}}
{{ dig "tls" "enabled" false .Values.settings | ternary "https" "http" }}
{{- end -}}

{{/* The parts of the configuration document that are no settings, as far as there are any. */}}
{{- define "fleet.documentParts" -}}
{{- $parts := dict -}}
{{- range $name := list "profiles" "extenders" "feeds" "substitution" -}}
{{- with index $.Values $name }}{{ $_ := set $parts $name . }}{{ end -}}
{{- end -}}
{{- empty $parts | ternary "" (toYaml $parts) -}}
{{- end -}}

{{/* The configuration document: the settings with these parts. */}}
{{- define "fleet.configuration" -}}
{{- $envelope := dict "apiVersion" "scheduling.fleet.dev/v1" "kind" "FleetSchedulerConfiguration" -}}
{{- $parts := include "fleet.documentParts" . | fromYaml -}}
{{- toYaml (merge $envelope $parts (include "fleet.settings" . | fromYaml)) -}}
{{- end -}}

{{/* The file that processes read. */}}
{{- define "fleet.configFile" -}}
/etc/fleet/{{ ternary "config.yaml" "controller.yaml" (not (empty (include "fleet.documentParts" .))) }}
{{- end -}}

{{/* Whole seconds of a duration. There is no function that parses durations, but one that adds them to a date. */}}
{{- define "fleet.seconds" -}}
{{- $day := toDate "2006-01-02" "2000-01-01" -}}
{{- $end := mustDateModify (eq . "0" | ternary "0s" .) $day -}}
{{- sub (unixEpoch $end) (unixEpoch $day) -}}
{{- end -}}

{{/* A string that sorts like the duration, down to nanoseconds. */}}
{{- define "fleet.moment" -}}
{{- $end := toDate "2006-01-02" "2000-01-01" | mustDateModify (eq . "0" | ternary "0s" .) -}}
{{- dateInZone "2006-01-02T15:04:05.000000000" $end "UTC" -}}
{{- end -}}

{{/* The shutdown grace period, plus some seconds to release the lease and to write the last decisions. */}}
{{- define "fleet.terminationGracePeriod" -}}
{{- dig "shutdown" "gracePeriod" "30s" .Values.settings | include "fleet.seconds" | add 15 -}}
{{- end -}}

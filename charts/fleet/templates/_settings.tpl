{{/* The file of settings, and what is read from them here. */}}

{{- define "fleet.settings" -}}
{{- $lease := dict "resourceName" (include "fleet.lease" .) "resourceNamespace" .Values.leaderElection.namespace -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.settings) (dict "leaderElection" $lease)) -}}
{{- end -}}

{{/* Whole seconds of a duration. There is no function that reads durations, but one that adds them to a day. */}}
{{- define "fleet.seconds" -}}
{{- $day := toDate "2006-01-02" "2000-01-01" -}}
{{- $end := mustDateModify (eq . "0" | ternary "0s" .) $day -}}
{{- sub (unixEpoch $end) (unixEpoch $day) -}}
{{- end -}}

{{/* A text that sorts as the durations do, down to nanoseconds. */}}
{{- define "fleet.moment" -}}
{{- $end := toDate "2006-01-02" "2000-01-01" | mustDateModify (eq . "0" | ternary "0s" .) -}}
{{- dateInZone "2006-01-02T15:04:05.000000000" $end "UTC" -}}
{{- end -}}

{{/* What a shutdown may take, and some seconds to give back the lease and to write down the last decisions. */}}
{{- define "fleet.terminationGracePeriod" -}}
{{- dig "shutdown" "gracePeriod" "30s" .Values.settings | include "fleet.seconds" | add 15 -}}
{{- end -}}

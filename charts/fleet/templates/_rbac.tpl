{{/* The content of a binding: (dict "root" $ "part" "controller" "kind" "Role" "name" "its name"). */}}
{{- define "fleet.bound" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "fleet.serviceAccount" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{/*
The rules of `rbac.selectable`. RBAC cannot deny, so without Secrets a rule for every resource or every group becomes a
list: of the core group the kinds that can be placed, and of the others those that the API server serves. Resources of
Fleet with copies of Secrets, such as works, are not among them.
*/}}
{{- define "fleet.selectableRules" -}}
{{- $rules := list -}}
{{- range .Values.rbac.selectable -}}
{{- if $.Values.rbac.selectableSecrets -}}
{{- $rules = append $rules (dict "apiGroups" .apiGroups "resources" .resources) -}}
{{- else -}}
{{- $every := has "*" .resources -}}
{{- $resources := without .resources "secrets" -}}
{{- $groups := has "*" .apiGroups | ternary (include "fleet.servedGroups" $ | fromJsonArray) .apiGroups -}}
{{- if and $every (or (has "*" .apiGroups) (has "" .apiGroups)) -}}
{{- $rules = append $rules (dict "apiGroups" (list "") "resources" (include "fleet.coreWithoutSecrets" $ | fromYamlArray)) -}}
{{- $groups = without $groups "" -}}
{{- end -}}
{{- if and $every (has "*" .apiGroups) -}}
{{- $envelopes := list "clusterresourceenvelopes" "resourceenvelopes" -}}
{{- $rules = append $rules (dict "apiGroups" (list "placement.kubernetes-fleet.io") "resources" $envelopes) -}}
{{- $groups = without $groups "placement.kubernetes-fleet.io" -}}
{{- end -}}
{{- if and $groups $resources -}}
{{- $rules = append $rules (dict "apiGroups" $groups "resources" $resources) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}

{{/* As a JSON list, the core group included; built-in ones if Helm is not connected. */}}
{{- define "fleet.servedGroups" -}}
{{- $groups := list "" -}}
{{- range .Capabilities.APIVersions -}}
{{- if contains "/" . }}{{ $groups = append $groups (splitList "/" . | first) }}{{ end -}}
{{- end -}}
{{- $never := list "v1" "authentication.k8s.io" "authorization.k8s.io" "cluster.kubernetes-fleet.io" "coordination.k8s.io" -}}
{{- range concat $never (list "events.k8s.io" "explain.fleet" "metrics.k8s.io" "scheduling.fleet.dev") }}{{ $groups = without $groups . }}{{ end -}}
{{- uniq $groups | sortAlpha | toJson -}}
{{- end -}}

{{- define "fleet.coreWithoutSecrets" -}}
- configmaps
- endpoints
- limitranges
- namespaces
- persistentvolumeclaims
- persistentvolumes
- podtemplates
- replicationcontrollers
- resourcequotas
- serviceaccounts
- services
{{- end -}}

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

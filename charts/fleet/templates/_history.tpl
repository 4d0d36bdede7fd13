{{/* Location of the history, and what pods need for access. Conditions are empty if they do not hold. */}}

{{- define "fleet.isSqlite" -}}
{{- if eq (include "fleet.historyType" .) "sqlite" }}true{{ end -}}
{{- end -}}

{{- define "fleet.hasVolume" -}}
{{- if and (include "fleet.isSqlite" .) .Values.history.sqlite.persistence.enabled }}true{{ end -}}
{{- end -}}

{{- define "fleet.sharesVolume" -}}
{{- if and (include "fleet.hasVolume" .) .Values.api.enabled }}true{{ end -}}
{{- end -}}

{{/*
In the environment and not in the file of settings: it counts more there, a password belongs into no ConfigMap, and the
Job that migrates runs before there is one. An API that cannot see the file of the controller has no history.
*/}}
{{- define "fleet.historyVariable" -}}
{{- if eq (include "fleet.historyType" .root) "postgresql" }}
- name: FLEET_HISTORY__URL
  valueFrom:
    secretKeyRef:
      name: {{ .root.Values.history.postgresql.existingSecret | quote }}
      key: {{ .root.Values.history.postgresql.key | quote }}
{{- if include "fleet.hasAuthority" .root }}
- name: PGSSLROOTCERT
  value: /etc/fleet-database/ca.crt
{{- end }}
{{- else if include "fleet.mountsHistory" . }}
- name: FLEET_HISTORY__URL
  value: sqlite:////var/lib/fleet/history.sqlite
{{- end }}
{{- end -}}

{{- define "fleet.mountsHistory" -}}
{{- $sees := or (eq .part "controller") (include "fleet.hasVolume" .root) -}}
{{- if and $sees (include "fleet.isSqlite" .root) }}true{{ end -}}
{{- end -}}

{{- define "fleet.hasAuthority" -}}
{{- if and (eq (include "fleet.historyType" .) "postgresql") .Values.history.postgresql.authoritySecret }}true{{ end -}}
{{- end -}}

{{- define "fleet.historyMounts" -}}
{{- if include "fleet.mountsHistory" . }}
- name: history
  mountPath: /var/lib/fleet
{{- else if include "fleet.hasAuthority" .root }}
- name: database
  mountPath: /etc/fleet-database
  readOnly: true
{{- end }}
{{- end -}}

{{- define "fleet.historyVolumes" -}}
{{- if include "fleet.hasAuthority" .root }}
- name: database
  secret:
    secretName: {{ .root.Values.history.postgresql.authoritySecret }}
    items:
      - key: {{ .root.Values.history.postgresql.authorityKey | quote }}
        path: ca.crt
{{- else if include "fleet.mountsHistory" . }}
- name: history
  {{- if include "fleet.hasVolume" .root }}
  {{- $own := include "fleet.part" (dict "root" .root "part" "history") }}
  persistentVolumeClaim:
    claimName: {{ default $own .root.Values.history.sqlite.existingClaim }}
  {{- else }}
  emptyDir:
    sizeLimit: {{ .root.Values.history.sqlite.size }}
  {{- end }}
{{- end }}
{{- end -}}

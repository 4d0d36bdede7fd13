{{/* Consistency checks across values, one problem per line. The schema has validated each value by itself. */}}
{{- define "fleet.problems" -}}
{{- $type := .Values.history.type -}}
{{- if regexMatch "^[0-9]" (include "fleet.fullname" .) }}
the names of objects would begin with {{ include "fleet.fullname" . }}, and a Service's must not begin with a digit: set fullnameOverride
{{- end }}
{{- if include "fleet.decides" . }}
{{- range $part := include "fleet.parts" . | fromJsonArray }}
{{- $replicas := int (index $.Values $part).replicas }}
{{- if and (eq $type "sqlite") (gt $replicas 1) }}
{{ $part }}.replicas is {{ $replicas }}, and history.type sqlite is a file for one of each: set history.type to postgresql and history.postgresql.existingSecret, or history.type to none
{{- end }}
{{- end }}
{{- if and (eq $type "postgresql") (not .Values.history.postgresql.existingSecret) }}
history.type is postgresql: set history.postgresql.existingSecret to the name of a Secret that holds the database's URL under the key {{ .Values.history.postgresql.key }}
{{- end }}
{{- if and (ne $type "postgresql") .Values.history.postgresql.existingSecret }}
history.postgresql.existingSecret is {{ .Values.history.postgresql.existingSecret }}, which history.type {{ $type }} would ignore: set history.type to postgresql
{{- end }}
{{- if and .Values.history.sqlite.existingClaim (not (include "fleet.hasVolume" .)) }}
history.sqlite.existingClaim is {{ .Values.history.sqlite.existingClaim }}, which would not be used: set history.type to sqlite and history.sqlite.persistence.enabled to true
{{- end }}
{{- else }}
{{- include "fleet.unusedByExplaining" . }}
{{- end }}
{{- if and (eq (include "fleet.tls" .) "secret") (not .Values.api.tls.existingSecret) }}
api.tls.mode is secret: set api.tls.existingSecret to the name of a Secret of type kubernetes.io/tls
{{- end }}
{{- $generated := include "fleet.part" (dict "root" . "part" "api-tls") }}
{{- if and (eq (include "fleet.tls" .) "secret") (eq .Values.api.tls.existingSecret $generated) }}
api.tls.existingSecret is {{ $generated }}, which is the name of the Secret that api.tls.mode generated makes, and Helm deletes that one: give your Secret another name
{{- end }}
{{- if and (ne (include "fleet.tls" .) "secret") .Values.api.tls.existingSecret }}
api.tls.existingSecret is {{ .Values.api.tls.existingSecret }}, which api.tls.mode {{ include "fleet.tls" . }} would ignore: set api.tls.mode to secret
{{- end }}
{{- if and .Values.api.ingress.enabled (not .Values.api.ingress.hosts) }}
api.ingress.enabled is true: name the API in api.ingress.hosts
{{- end }}
{{- if and .Values.api.httpRoute.enabled (not .Values.api.httpRoute.parentRefs) }}
api.httpRoute.enabled is true: name its Gateway in api.httpRoute.parentRefs
{{- end }}
{{- range $name, $way := include "fleet.derived" . | fromYaml }}
{{- $path := splitList "." $name }}
{{- if hasKey (dig (first $path) dict $.Values.settings) (last $path) }}
settings.{{ $name }} is not for you to set here: {{ $way }}
{{- end }}
{{- end }}
{{- include "fleet.contradictions" . }}
{{- if .Values.rbac.create }}
{{- include "fleet.misplacedRights" . }}
{{- end }}
{{- range $part := list "controller" "api" }}
{{- if hasKey (index $.Values $part).podAnnotations "checksum/settings" }}
{{ $part }}.podAnnotations has checksum/settings, which is an annotation of the chart: choose another name
{{- end }}
{{- range (index $.Values $part).extraEnv }}
{{- if has .name (include "fleet.derivedVariables" $ | fromYamlArray) }}
{{ $part }}.extraEnv has {{ .name }}, which is not for you to set: it comes from other values, as settings of that kind do
{{- end }}
{{- end }}
{{- end }}
{{- range $part := list "controller" "api" }}
{{- range (index $.Values $part).extraVolumes }}
{{- if has .name (include "fleet.ownVolumes" $ | fromYamlArray) }}
{{ $part }}.extraVolumes has {{ .name }}, which is the name of a volume of the chart: choose another one, in {{ $part }}.extraVolumeMounts as well
{{- end }}
{{- end }}
{{- end }}
{{- if include "fleet.isConnected" . }}
{{- include "fleet.missing" . }}
{{- end }}
{{- end -}}

{{/* Values that `mode: explain-only` would ignore although they name something. */}}
{{- define "fleet.unusedByExplaining" -}}
{{- if not .Values.api.enabled }}
mode is explain-only and api.enabled is false, so nothing would run: set api.enabled to true
{{- end }}
{{- range $name, $value := dict "postgresql.existingSecret" .Values.history.postgresql.existingSecret "sqlite.existingClaim" .Values.history.sqlite.existingClaim }}
{{- if $value }}
history.{{ $name }} is {{ $value }}, which mode explain-only would ignore, because it records nothing: leave it out
{{- end }}
{{- end }}
{{- if .Values.crds.adopt }}
crds.adopt is true, which mode explain-only would ignore, because it installs no resource definitions: leave it out
{{- end }}
{{- end -}}

{{/* Settings with which no component would start, with the program's own messages. */}}
{{- define "fleet.contradictions" -}}
{{- $lease := default dict .Values.settings.leaderElection -}}
{{- $retry := default "2s" $lease.retryPeriod -}}
{{- $renew := default "10s" $lease.renewDeadline -}}
{{- $lasts := default "15s" $lease.leaseDuration -}}
{{- $isRenewed := lt (include "fleet.moment" $retry) (include "fleet.moment" $renew) -}}
{{- if not (and $isRenewed (lt (include "fleet.moment" $renew) (include "fleet.moment" $lasts))) }}
settings.leaderElection.retryPeriod should be shorter than renewDeadline, and that shorter than leaseDuration, but they are {{ $retry }}, {{ $renew }} and {{ $lasts }}: change those that you set
{{- end }}
{{- if not (hasSuffix ".000000000" (include "fleet.moment" $lasts)) }}
settings.leaderElection.leaseDuration {{ $lasts }} should be whole seconds: round it
{{- end }}
{{- $selection := default dict .Values.settings.selection -}}
{{- if and $selection.secrets (not .Values.rbac.selectableSecrets) }}
settings.selection.secrets is true, and without rbac.selectableSecrets the controller may not read Secrets: leave it out
{{- end }}
{{- if and $selection.allowedKinds $selection.skippedKinds }}
settings.selection.allowedKinds and settings.selection.skippedKinds exclude each other: set one of them
{{- end }}
{{- end -}}

{{/* Service accounts that would get too many rights. */}}
{{- define "fleet.misplacedRights" -}}
{{- range $part := include "fleet.parts" . | fromJsonArray }}
{{- $account := (index $.Values $part).serviceAccount }}
{{- if not (or $account.create $account.name) }}
{{ $part }}.serviceAccount.create is false, and rbac.create would give the rights to default, the account of every pod that names none: name the account in {{ $part }}.serviceAccount.name
{{- end }}
{{- end }}
{{- $account := include "fleet.serviceAccount" (dict "root" . "part" "controller") }}
{{- if and (include "fleet.decides" .) .Values.api.enabled (eq $account (include "fleet.serviceAccount" (dict "root" . "part" "api"))) }}
controller and api have the same service account, {{ $account }}, and rbac.create would give the API the rights of the controller: choose two in controller.serviceAccount.name and api.serviceAccount.name
{{- end }}
{{- end -}}

{{- define "fleet.ownVolumes" -}}
[settings, tmp, history, database, tls]
{{- end -}}

{{/* Whether `lookup` works: it does not in `helm template`. */}}
{{- define "fleet.isConnected" -}}
{{- if lookup "v1" "Namespace" "" "kube-system" }}true{{ end -}}
{{- end -}}

{{/* Prerequisites of an installation. Without these Helm would wait or stop halfway. */}}
{{- define "fleet.missing" -}}
{{- $lease := .Values.leaderElection -}}
{{- $isMade := or $lease.createNamespace (eq $lease.namespace .Release.Namespace) -}}
{{- if not (or $isMade (not (include "fleet.decides" .)) (lookup "v1" "Namespace" "" $lease.namespace)) }}
leaderElection.namespace is {{ $lease.namespace }}, which does not exist: create it, or set leaderElection.createNamespace to true
{{- end }}
{{- include "fleet.unselected" . }}
{{- with include "fleet.endangered" . }}
resource definitions that this release had would be deleted, with every placement: they have lost the annotation that keeps them, for example because another release took them over. First run: kubectl annotate crd {{ . }} helm.sh/resource-policy=keep
{{- end }}
{{- $database := .Values.history.postgresql -}}
{{- if and (eq (include "fleet.historyType" .) "postgresql") .Values.migration.enabled $database.existingSecret }}
{{- $secret := lookup "v1" "Secret" .Release.Namespace $database.existingSecret }}
{{- if not $secret }}
history.postgresql.existingSecret is {{ $database.existingSecret }}, and namespace {{ .Release.Namespace }} has no such Secret: make it, with the database's URL under the key {{ $database.key }}
{{- else if not (hasKey (default dict $secret.data) $database.key) }}
history.postgresql.existingSecret is {{ $database.existingSecret }}, which has no key {{ $database.key }}: put the database's URL there, or name its key in history.postgresql.key
{{- end }}
{{- end }}
{{- with and (include "fleet.hasAuthority" .) $database.authoritySecret }}
{{- if not (hasKey (dig "data" dict (lookup "v1" "Secret" $.Release.Namespace .)) $database.authorityKey) }}
history.postgresql.authoritySecret is {{ . }}, and namespace {{ $.Release.Namespace }} has no such Secret with the key {{ $database.authorityKey }}: make it, with the certificate of the authority
{{- end }}
{{- end }}
{{- end -}}

{{/* The API server rejects changes of a selector; Helm would fail halfway. */}}
{{- define "fleet.unselected" -}}
{{- range $part := include "fleet.parts" . | fromJsonArray }}
{{- $me := dict "root" $ "part" $part }}
{{- $there := lookup "apps/v1" "Deployment" $.Release.Namespace (include "fleet.part" $me) }}
{{- $name := dig "spec" "selector" "matchLabels" "app.kubernetes.io/name" "" $there }}
{{- if and (include "fleet.owns" (dict "root" $ "object" $there)) (ne $name (include "fleet.name" $)) }}
nameOverride makes the name of the chart {{ include "fleet.name" $ }}, and Deployment {{ include "fleet.part" $me }} selects its pods by {{ $name }}, which cannot be changed: set nameOverride to {{ $name }}, or uninstall the release and install it with the other name
{{- end }}
{{- end }}
{{- end -}}

{{/* Settings that the chart derives from other values. */}}
{{- define "fleet.derived" -}}
history.url: it comes from history.type, and the URL of a PostgreSQL database from the Secret history.postgresql.existingSecret
health.address: the probes of the pods use port 8081
metrics.address: Services and policies use port 8080
leaderElection.leaderElect: without the lease, two controllers would run during every upgrade
leaderElection.resourceName: use leaderElection.name
leaderElection.resourceNamespace: use leaderElection.namespace
{{- end -}}

{{/* Likewise as environment variables, which would override the settings file, and variables that the chart sets. */}}
{{- define "fleet.derivedVariables" -}}
{{- range $name, $_ := include "fleet.derived" . | fromYaml }}
- FLEET_{{ splitList "." $name | join "__" | snakecase | upper }}
{{- end }}
{{- if include "fleet.hasAuthority" . }}
- PGSSLROOTCERT
{{- end }}
{{- end -}}

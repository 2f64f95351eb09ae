{{- define "colophon.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "colophon.selector" -}}
app.kubernetes.io/name: colophon
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "colophon.labels" -}}
{{ include "colophon.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* The governing Service: several servers need one that gives each a name. */ -}}
{{- define "colophon.servers" -}}
{{ include "colophon.name" . }}{{ if gt (int .Values.servers) 1 }}-servers{{ end }}
{{- end -}}

{{- define "colophon.check" -}}
{{- if gt (int .Values.servers) 1 -}}
{{- if not .Values.store.secret -}}
{{- fail "servers: more than one server needs a database: set store.secret" -}}
{{- end -}}
{{- if not .Values.keys.secret -}}
{{- fail "servers: more than one server needs the signing keys: set keys.secret" -}}
{{- end -}}
{{- if not .Values.trustedProxies -}}
{{- fail "servers: several servers forward writes to each other: set trustedProxies to the addresses of your pods, such as 10.0.0.0/8" -}}
{{- end -}}
{{- end -}}
{{- end -}}

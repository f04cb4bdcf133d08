{{- define "slipstream.name" -}}
{{- printf "%s-job" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "slipstream.labels" -}}
app.kubernetes.io/name: slipstream
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "slipstream.selector" -}}
app.kubernetes.io/name: slipstream
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* Names, labels, images. */ -}}

{{- define "triton-llm.fullname" -}}
{{- $base := .Values.fullnameOverride | default (ternary .Release.Name (printf "%s-%s" .Release.Name (.Values.nameOverride | default .Chart.Name)) (contains (.Values.nameOverride | default .Chart.Name) .Release.Name)) -}}
{{- include "triton-llm.dnsName" (list $base 26) -}}
{{- end -}}

{{- /* A text and a length: a name that DNS takes. What had to change gets a digest, so that two texts never meet. */ -}}
{{- define "triton-llm.dnsName" -}}
{{- $text := index . 0 -}}
{{- $length := index . 1 | int -}}
{{- $name := regexReplaceAll "[^a-z0-9]+" (lower $text) "-" | trimAll "-" -}}
{{- if regexMatch "^[0-9]" $name }}{{ $name = printf "m-%s" $name }}{{ end -}}
{{- if and (eq $name $text) (le (len $name) $length) -}}
{{- $name -}}
{{- else -}}
{{- printf "%s-%s" ($name | trunc (int (sub $length 7)) | trimSuffix "-" | default "m") (sha256sum $text | trunc 6) -}}
{{- end -}}
{{- end -}}

{{- define "triton-llm.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 -}}
{{- end -}}

{{- /* Arguments: root, component, further labels. */ -}}
{{- define "triton-llm.labels" -}}
{{- $root := index . 0 -}}
{{- $own := dict "helm.sh/chart" (include "triton-llm.chart" $root) "app.kubernetes.io/version" $root.Chart.AppVersion "app.kubernetes.io/managed-by" $root.Release.Service "app.kubernetes.io/part-of" "triton-llm" -}}
{{- mustMergeOverwrite (deepCopy $root.Values.labels) $own (include "triton-llm.selector" . | fromYaml) | toYaml -}}
{{- end -}}

{{- define "triton-llm.selector" -}}
{{- $root := index . 0 -}}
{{- $own := dict "app.kubernetes.io/name" (include "triton-llm.dnsName" (list ($root.Values.nameOverride | default $root.Chart.Name) 40)) "app.kubernetes.io/instance" $root.Release.Name -}}
{{- with index . 1 }}{{ $_ := set $own "app.kubernetes.io/component" . }}{{ end -}}
{{- if gt (len .) 2 }}{{ $own = merge $own (index . 2) }}{{ end -}}
{{- toYaml $own -}}
{{- end -}}

{{- /* Arguments: root, name, component, further labels. */ -}}
{{- define "triton-llm.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "triton-llm.labels" (list $root (index . 2) (index . 3)) | nindent 2 }}
{{- with $root.Values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Arguments: root, key of images. */ -}}
{{- define "triton-llm.image" -}}
{{- $root := index . 0 -}}
{{- $image := get $root.Values.images (index . 1) -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default $root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "triton-llm.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "triton-llm.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "triton-llm.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "triton-llm.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* A value as a command line takes it: numbers in full, objects as JSON. */ -}}
{{- define "triton-llm.word" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end -}}
{{- end -}}

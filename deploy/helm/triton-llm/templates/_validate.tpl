{{- /* What no schema can say: refused with the remedy. */ -}}
{{- define "triton-llm.validate" -}}
{{- $root := . -}}
{{- $names := dict -}}
{{- range $model := .Values.models -}}
{{- if hasKey $names $model.name -}}
{{- fail (printf "models: '%s' stands there twice; each name once: rename one, or take it out." $model.name) -}}
{{- end -}}
{{- $_ := set $names $model.name true -}}
{{- end -}}
{{- range $item := (include "triton-llm.workloads" . | fromJson).items -}}
{{- include "triton-llm.validateModel" (list $root $item) -}}
{{- end -}}
{{- if and .Values.hubToken.enabled (not .Values.hubToken.secretName) -}}
{{- fail "hubToken.secretName '': a token is wanted; name the Secret that holds it under the key token." -}}
{{- end -}}
{{- if and (eq .Values.storage.kind "existingClaim") (not .Values.storage.existingClaim) -}}
{{- fail "storage.existingClaim '': kind existingClaim wants one; name it, or choose kind pvc." -}}
{{- end -}}
{{- if eq .Values.storage.kind "objectStore" -}}
{{- range $name := list "path" "secretName" -}}
{{- if not (get $root.Values.storage.objectStore $name) -}}
{{- fail (printf "storage.objectStore.%s '': kind objectStore wants it; set it, or choose another kind." $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (or .Values.ingress.enabled .Values.httpRoute.enabled) (not .Values.gateway.enabled) -}}
{{- fail "gateway.enabled false: ingress and httpRoute lead to the gateway; enable it, or disable them." -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts []: an Ingress without a host would answer for all; name at least one." -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs []: a route belongs to a Gateway; name at least one." -}}
{{- end -}}
{{- end -}}

{{- define "triton-llm.validateModel" -}}
{{- $root := index . 0 -}}
{{- $item := index . 1 -}}
{{- $model := $item.model -}}
{{- $world := mul ($model.tp | int) ($model.pp | int) -}}
{{- $node := $model.gpu.perNode | int -}}
{{- if and (not $item.gpu) (gt $world 1) -}}
{{- fail (printf "model '%s': tp x pp is %d and engine '%s' runs on CPUs, which has one rank; set tp and pp to 1, or choose engine tensorrt_llm." $item.name $world $model.engine) -}}
{{- end -}}
{{- if and $item.gpu (gt $world $node) (not $model.multiNode.enabled) -}}
{{- fail (printf "model '%s': tp x pp is %d, a node has %d GPUs (gpu.perNode); set multiNode.enabled, or lower tp or pp." $item.name $world $node) -}}
{{- end -}}
{{- if and $model.multiNode.enabled (or (not $item.gpu) (le $world $node) (ne (mod $world $node) 0)) -}}
{{- fail (printf "model '%s': multiNode wants an engine for GPUs and a multiple of %d GPUs (gpu.perNode), more than one node; tp x pp is %d: change tp or pp, or disable multiNode." $item.name $node $world) -}}
{{- end -}}
{{- if and $model.multiNode.enabled (not $model.multiNode.sshSecretName) -}}
{{- fail (printf "model '%s': multiNode.sshSecretName '': ranks are started by ssh; name the Secret that holds the keys." $item.name) -}}
{{- end -}}
{{- $drain := include "triton-llm.drain" (list $root $model) | fromJson -}}
{{- if lt ($drain.grace | int) ($drain.sum | int) -}}
{{- fail (printf "model '%s': drain.graceSeconds %d is shorter than preStop, drain, exit and margin together: %d; raise it, set it to 0, or shorten the drain." $item.name ($drain.grace | int) ($drain.sum | int)) -}}
{{- end -}}
{{- if and $model.spot.enabled (gt ($drain.grace | int) ($model.spot.noticeSeconds | int)) -}}
{{- fail (printf "model '%s': its end takes %d s, spot.noticeSeconds is %d; set drain.graceSeconds to 0." $item.name ($drain.grace | int) ($model.spot.noticeSeconds | int)) -}}
{{- end -}}
{{- with $model.autoscaling -}}
{{- if ne .kind "off" -}}
{{- if gt (.minReplicas | int) (.maxReplicas | int) -}}
{{- fail (printf "model '%s': autoscaling.minReplicas %d is above maxReplicas %d; turn them round." $item.name (.minReplicas | int) (.maxReplicas | int)) -}}
{{- end -}}
{{- if lt (.scaleDownStabilizationSeconds | int) ($model.startSeconds | int) -}}
{{- fail (printf "model '%s': autoscaling.scaleDownStabilizationSeconds %d is shorter than startSeconds %d, what a server takes to come back; raise it." $item.name (.scaleDownStabilizationSeconds | int) ($model.startSeconds | int)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $model.canary.enabled (not $root.Values.httpRoute.enabled) -}}
{{- fail (printf "model '%s': canary.enabled: its share of the traffic is a weight of an HTTPRoute; set httpRoute.enabled." $item.name) -}}
{{- end -}}
{{- if and $model.inferencePool.enabled (not $model.inferencePool.pickerName) -}}
{{- fail (printf "model '%s': inferencePool.pickerName '': a pool wants an endpoint picker; name its Service." $item.name) -}}
{{- end -}}
{{- if and (eq $root.Values.storage.kind "ephemeral") (or $item.gpu $model.multiNode.enabled) -}}
{{- fail (printf "model '%s': storage.kind ephemeral builds in each pod's start, which an engine for GPUs takes too long for; choose pvc." $item.name) -}}
{{- end -}}
{{- end -}}

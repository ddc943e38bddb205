{{- /* What is served: each model, and its canary, with all that follows from its values. A JSON object: {items: […]}.
       Of an item: name (the served model's), id, track, object (its objects' name), labels, model (its values), gpu,
       gpus (a pod's), nodes, key, artifact, claim, preStop, drain, grace. */ -}}
{{- define "triton-llm.workloads" -}}
{{- $root := . -}}
{{- $items := list -}}
{{- range $model := .Values.models -}}
{{- $values := mustMergeOverwrite (deepCopy $root.Values.modelDefaults) (deepCopy $model) -}}
{{- $items = append $items (include "triton-llm.workload" (list $root $values "stable") | fromJson) -}}
{{- if $values.canary.enabled -}}
{{- $canary := deepCopy $values -}}
{{- range $key := list "source" "revision" "quant" -}}
{{- with get $values.canary $key }}{{ $_ := set $canary $key . }}{{ end -}}
{{- end -}}
{{- $_ := set $canary "serving" (mustMergeOverwrite (deepCopy $values.serving) (deepCopy $values.canary.serving)) -}}
{{- $_ := set $canary "replicas" $values.canary.replicas -}}
{{- $_ := set $canary.autoscaling "kind" "off" -}}
{{- $items = append $items (include "triton-llm.workload" (list $root $canary "canary") | fromJson) -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "items" $items) -}}
{{- end -}}

{{- define "triton-llm.workload" -}}
{{- $root := index . 0 -}}
{{- $model := index . 1 -}}
{{- $track := index . 2 -}}
{{- $id := include "triton-llm.dnsName" (list $model.name 20) -}}
{{- $gpu := has $model.engine (list "tensorrt_llm" "tensorrt") -}}
{{- $world := mul ($model.tp | int) ($model.pp | int) -}}
{{- $gpus := ternary (ternary ($model.gpu.perNode | int) ($world | int) $model.multiNode.enabled) 0 $gpu -}}
{{- $nodes := ternary (div $world ($model.gpu.perNode | int)) 1 $model.multiNode.enabled -}}
{{- $object := printf "%s-%s%s" (include "triton-llm.fullname" $root) $id (ternary "-canary" "" (eq $track "canary")) -}}
{{- $key := include "triton-llm.engineKey" (list $root $model) -}}
{{- $parts := include "triton-llm.drain" (list $root $model) | fromJson -}}
{{- $labels := dict "triton-llm/model" $id "triton-llm/track" $track -}}
{{- dict "name" $model.name "id" $id "track" $track "object" $object "labels" $labels "model" $model "gpu" $gpu "gpus" $gpus "nodes" $nodes "key" $key "artifact" (printf "/engines/%s/%s" $key $model.name) "drain" $parts.drain "settle" $parts.settle "preStop" $parts.preStop "grace" $parts.grace | toJson -}}
{{- end -}}

{{- /* What an engine depends on, as one hash. */ -}}
{{- define "triton-llm.engineKey" -}}
{{- $root := index . 0 -}}
{{- $model := index . 1 -}}
{{- $libraries := $root.Files.Get "files/libraries.yaml" | fromYaml -}}
{{- dict "source" $model.source "revision" $model.revision "engine" $model.engine "library" (get $libraries $model.engine) "quant" $model.quant "tp" $model.tp "pp" $model.pp "limits" $model.limits "options" $model.buildOptions "gpu" $model.gpu.kind "perNode" (ternary $model.gpu.perNode 0 $model.multiNode.enabled) | toJson | sha256sum | trunc 16 -}}
{{- end -}}

{{- /* Seconds of a server's end. 8 are tritonserver's exit timeout and the launcher's patience beyond it. Spot: what
       the notice leaves. Several nodes: mpirun passes no signal on in time, so that all the waiting is preStop's. */ -}}
{{- define "triton-llm.drain" -}}
{{- $drain := (index . 1).drain -}}
{{- $spot := (index . 1).spot -}}
{{- $nodes := (index . 1).multiNode.enabled -}}
{{- $settle := $drain.settleSeconds | int -}}
{{- $preStop := max $settle ($drain.preStopSeconds | int) -}}
{{- $wait := $drain.drainSeconds | int -}}
{{- $margin := $drain.marginSeconds | int -}}
{{- if $spot.enabled -}}
{{- $settle = min 2 $settle -}}
{{- $preStop = $settle -}}
{{- $margin = 2 -}}
{{- $wait = max 0 (min $wait (sub ($spot.noticeSeconds | int) (add $preStop 8 $margin))) -}}
{{- end -}}
{{- if $nodes -}}
{{- $preStop = add $preStop $wait -}}
{{- $wait = 0 -}}
{{- end -}}
{{- $sum := add $preStop $wait 8 $margin -}}
{{- dict "settle" $settle "preStop" $preStop "drain" $wait "sum" $sum "grace" (ternary $sum ($drain.graceSeconds | int) (eq ($drain.graceSeconds | int) 0)) | toJson -}}
{{- end -}}

{{- /* The pod of a server. Arguments: root, workload, role: alone, leader or worker. */ -}}
{{- define "triton-llm.serverPod" -}}
{{- $root := index . 0 -}}
{{- $item := index . 1 -}}
{{- $role := index . 2 -}}
{{- $model := $item.model -}}
metadata:
  labels:
    {{- include "triton-llm.labels" (list $root "server" $item.labels) | nindent 4 }}
    {{- if $model.inferencePool.enabled }}
    triton-llm/pool: {{ $item.id }}
    inference.networking.k8s.io/engine-type: triton-tensorrt-llm
    {{- end }}
  annotations:
    triton-llm/model: {{ $item.name | quote }}
    triton-llm/engine-key: {{ $item.key | quote }}
    {{- with $model.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- include "triton-llm.placing" (list $root $item) | nindent 2 }}
  serviceAccountName: {{ include "triton-llm.serviceAccount" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with $root.Values.images.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  securityContext:
    {{- include "triton-llm.podSecurity" (ternary $root.Values.security.multiNodeUserId $root.Values.security.userId $model.multiNode.enabled | int) | nindent 4 }}
  terminationGracePeriodSeconds: {{ $item.grace | int }}
  initContainers:
    {{- if eq $root.Values.storage.kind "ephemeral" }}
    {{- include "triton-llm.buildContainer" (list $root $item) | nindent 4 }}
    {{- else if eq $root.Values.storage.kind "objectStore" }}
    {{- include "triton-llm.copyContainer" (list $root $item "fetch") | nindent 4 }}
    {{- end }}
    - name: enter-engine
      image: {{ include "triton-llm.image" (list $root (ternary "gpu" "cpu" $item.gpu)) }}
      imagePullPolicy: {{ $root.Values.images.pullPolicy }}
      command: [/bin/sh, /scripts/enter-engine.sh]
      args:
        - {{ $item.artifact }}
        - {{ $item.name | quote }}
        - /srv/triton-llm/model_repository
        - {{ $model.build.deadlineSeconds | int | quote }}
        {{- range $knob, $value := $model.serving }}
        - --set
        - {{ printf "%s=%s" $knob (include "triton-llm.word" $value) | quote }}
        {{- end }}
      securityContext:
        {{- include "triton-llm.containerSecurity" $root | nindent 8 }}
      resources:
        requests: {cpu: 250m, memory: 256Mi}
        limits: {cpu: "1", memory: 512Mi}
      env:
        {{- include "triton-llm.environment" $root | nindent 8 }}
      volumeMounts:
        {{- include "triton-llm.serverMounts" $item | nindent 8 }}
  containers:
    - name: server
      image: {{ include "triton-llm.image" (list $root (ternary "gpu" "cpu" $item.gpu)) }}
      imagePullPolicy: {{ $root.Values.images.pullPolicy }}
      {{- if eq $role "worker" }}
      command: [/usr/sbin/sshd, -D, -e, -f, /scripts/sshd_config]
      {{- else }}
      {{- $serve := list "triton-llm" "container" "--log-format" $root.Values.logs.format }}
      {{- if eq $role "leader" }}{{ $serve = concat (list "/bin/sh" "/scripts/lead.sh" ($item.gpus | int | toString)) $serve }}{{ end }}
      command: {{ concat (ternary (list "/opt/nvidia/nvidia_entrypoint.sh") list $item.gpu) $serve | toJson }}
      args:
        - --
        - --model={{ $item.name }}
        - --start-seconds={{ $model.startSeconds | int }}
        - --drain-seconds={{ $item.drain | int }}
        {{- if not $model.inferencePool.enabled }}
        - --no-gateway
        {{- end }}
      {{- end }}
      env:
        {{- include "triton-llm.environment" $root | nindent 8 }}
        - {name: HOST, value: 0.0.0.0}
      {{- if eq $role "worker" }}
      ports:
        - {name: ssh, containerPort: 2222}
      {{- range $probe, $threshold := dict "startupProbe" 30 "readinessProbe" 3 "livenessProbe" 6 }}
      {{ $probe }}:
        tcpSocket: {port: ssh}
        periodSeconds: 10
        failureThreshold: {{ $threshold }}
      {{- end }}
      {{- else }}
      ports:
        - {name: http, containerPort: 8000}
        - {name: grpc, containerPort: 8001}
        - {name: metrics, containerPort: 8002}
        - {name: health, containerPort: 8003}
        {{- if $model.inferencePool.enabled }}
        - {name: openai, containerPort: 9000}
        {{- end }}
      startupProbe: # startSeconds, and a sixth more: the launcher itself gives up first and says why
        httpGet: {path: /ready, port: health}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: {{ div (mul ($model.startSeconds | int) 7) 30 | add 1 }}
      readinessProbe:
        httpGet: {path: /ready, port: health}
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 1
      livenessProbe: # the launcher heals Triton itself
        httpGet: {path: /live, port: health}
        periodSeconds: 10
        timeoutSeconds: 10
        failureThreshold: 6
      lifecycle:
        preStop:
          exec:
            command: [triton-llm, drain, --settle-seconds={{ $item.settle | int }}, --wait-seconds={{ $item.preStop | int }}]
      {{- end }}
      securityContext:
        {{- include "triton-llm.containerSecurity" $root | nindent 8 }}
      resources:
        {{- include "triton-llm.resources" (list $item $model.resources $model.multiNode.devices) | nindent 8 }}
      volumeMounts:
        {{- include "triton-llm.serverMounts" $item | nindent 8 }}
  volumes:
    - name: engines
      {{- include "triton-llm.enginesVolume" $root | nindent 6 }}
    - name: scripts
      configMap: {name: {{ include "triton-llm.fullname" $root }}-scripts}
    - name: repository
      emptyDir: {sizeLimit: 64Mi}
    - name: run
      emptyDir: {sizeLimit: 4Gi}
    - name: home
      emptyDir: {sizeLimit: 8Gi}
    - name: tmp
      emptyDir: {sizeLimit: 8Gi}
    - name: shm
      emptyDir: {medium: Memory, sizeLimit: {{ $model.sharedMemory }}}
    {{- if and (eq $root.Values.storage.kind "ephemeral") $root.Values.hubToken.enabled }}
    - name: hub-token
      secret: {secretName: {{ $root.Values.hubToken.secretName }}, items: [{key: token, path: token}]}
    {{- end }}
    {{- if $model.multiNode.enabled }}
    - name: ssh
      secret: {secretName: {{ $model.multiNode.sshSecretName }}, defaultMode: 0400}
    {{- end }}
{{- end -}}

{{- define "triton-llm.serverMounts" -}}
- {name: engines, mountPath: /engines, readOnly: true}
- {name: scripts, mountPath: /scripts, readOnly: true}
- {name: repository, mountPath: /srv/triton-llm/model_repository}
- {name: run, mountPath: /srv/triton-llm/run}
- {name: home, mountPath: /srv/triton-llm/home}
- {name: tmp, mountPath: /tmp}
- {name: shm, mountPath: /dev/shm}
{{- if .model.multiNode.enabled }}
- {name: ssh, mountPath: /ssh, readOnly: true}
{{- end }}
{{- end -}}

{{- /* A user that the image does not know has no home and no name but these. */ -}}
{{- define "triton-llm.environment" -}}
- {name: HOME, value: /srv/triton-llm/home}
- {name: USER, value: triton-llm}
{{- end -}}

{{- define "triton-llm.enginesVolume" -}}
{{- if eq .Values.storage.kind "pvc" -}}
persistentVolumeClaim: {claimName: {{ include "triton-llm.fullname" . }}-engines}
{{- else if eq .Values.storage.kind "existingClaim" -}}
persistentVolumeClaim: {claimName: {{ .Values.storage.existingClaim }}}
{{- else -}}
emptyDir: {sizeLimit: {{ .Values.storage.localSize }}}
{{- end -}}
{{- end -}}

{{- /* Arguments: workload, resources, further devices. */ -}}
{{- define "triton-llm.resources" -}}
{{- $item := index . 0 -}}
{{- $found := deepCopy (index . 1) -}}
{{- range $name, $number := index . 2 -}}
{{- $_ := set $found.requests $name ($number | int) -}}
{{- $_ := set $found.limits $name ($number | int) -}}
{{- end -}}
{{- if $item.gpu -}}
{{- $_ := set $found.requests $item.model.gpu.resource ($item.gpus | int) -}}
{{- $_ := set $found.limits $item.model.gpu.resource ($item.gpus | int) -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{- /* Where its pods run. Arguments: root, workload. */ -}}
{{- define "triton-llm.placing" -}}
{{- $root := index . 0 -}}
{{- $item := index . 1 -}}
{{- $model := $item.model -}}
{{- $selector := dict "matchLabels" (include "triton-llm.selector" (list $root "server" $item.labels) | fromYaml) -}}
{{- $affinity := deepCopy $model.affinity -}}
{{- $nodeSelector := deepCopy $model.nodeSelector -}}
{{- $tolerations := $model.tolerations -}}
{{- if $item.gpu -}}
{{- $tolerations = append $tolerations (dict "key" "nvidia.com/gpu" "operator" "Exists" "effect" "NoSchedule") -}}
{{- if $model.gpu.products -}}
{{- $term := dict "matchExpressions" (list (dict "key" $model.gpu.productLabel "operator" "In" "values" $model.gpu.products)) -}}
{{- $required := dict "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" (list $term))) -}}
{{- $affinity = mustMerge $affinity $required -}}
{{- end -}}
{{- end -}}
{{- if $model.spot.enabled -}}
{{- $tolerations = concat $tolerations $model.spot.tolerations -}}
{{- $nodeSelector = mustMerge $nodeSelector $model.spot.nodeSelector -}}
{{- $apart := dict "weight" 100 "podAffinityTerm" (dict "topologyKey" "kubernetes.io/hostname" "labelSelector" $selector) -}}
{{- $affinity = mustMerge $affinity (dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list $apart))) -}}
{{- end -}}
{{- with $model.gpu.runtimeClass }}{{ if $item.gpu }}
runtimeClassName: {{ . }}
{{- end }}{{ end }}
{{- with $model.priorityClass }}
priorityClassName: {{ . }}
{{- end }}
{{- with $nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and $model.spreadBy (not $model.multiNode.enabled) }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: {{ $model.spreadBy }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      {{- toYaml $selector | nindent 6 }}
{{- end }}
{{- end -}}

{{- /* Builds the engine where it is missing. Arguments: root, workload. */ -}}
{{- define "triton-llm.buildContainer" -}}
{{- $root := index . 0 -}}
{{- $item := index . 1 -}}
{{- $model := $item.model -}}
- name: build
  image: {{ include "triton-llm.image" (list $root (ternary "gpuBuilder" "cpuBuilder" $item.gpu)) }}
  imagePullPolicy: {{ $root.Values.images.pullPolicy }}
  command: {{ concat (ternary (list "/opt/nvidia/nvidia_entrypoint.sh") list $item.gpu) (list "triton-llm" "build") | toJson }}
  args:
    - {{ $model.source | quote }}
    - --name={{ $item.name }}
    - --engines=/engines/{{ $item.key }}
    - --engine={{ $model.engine }}
    - --quant={{ $model.quant }}
    {{- with $model.revision }}
    - {{ printf "--revision=%s" . | quote }}
    {{- end }}
    {{- if $item.gpu }}
    - --tp={{ $model.tp | int }}
    - --pp={{ $model.pp | int }}
    - --gpus-per-node={{ ternary $model.gpu.perNode 8 $model.multiNode.enabled | int }}
    {{- with $model.gpu.kind }}
    - {{ printf "--gpu=%s" . | quote }}
    {{- end }}
    {{- end }}
    {{- range $name, $value := $model.limits }}
    {{- if $value }}
    - --{{ kebabcase $name }}={{ $value | int }}
    {{- end }}
    {{- end }}
    {{- include "triton-llm.buildOptions" $model.buildOptions | nindent 4 }}
  env:
    {{- include "triton-llm.environment" $root | nindent 4 }}
    - {name: HF_HOME, value: /engines/.hub}
    {{- if $root.Values.hubToken.enabled }}
    - {name: HF_TOKEN_PATH, value: /secrets/hub/token}
    {{- end }}
  securityContext:
    {{- include "triton-llm.containerSecurity" $root | nindent 4 }}
  resources:
    {{- include "triton-llm.resources" (list (dict "gpu" $item.gpu "gpus" (min ($item.gpus | int) ($model.gpu.perNode | int)) "model" $model) $model.build.resources dict) | nindent 4 }}
  volumeMounts:
    - {name: engines, mountPath: /engines}
    - {name: home, mountPath: /srv/triton-llm/home}
    - {name: tmp, mountPath: /tmp}
    - {name: shm, mountPath: /dev/shm}
    {{- if $root.Values.hubToken.enabled }}
    - {name: hub-token, mountPath: /secrets/hub, readOnly: true}
    {{- end }}
{{- end -}}

{{- /* EngineSpec's names as flags of `triton-llm build`; what is off says nothing. */ -}}
{{- define "triton-llm.buildOptions" -}}
{{- $lists := dict "lora_modules" "lora-module" "plugins" "plugin" -}}
{{- range $name, $value := . }}
{{- if hasKey $lists $name }}
{{- range $value }}
- {{ printf "--%s=%s" (get $lists $name) . | quote }}
{{- end }}
{{- else if eq $name "check_quality" }}
{{- if not $value }}
- --no-quality-check
{{- end }}
{{- else if kindIs "bool" $value }}
{{- if $value }}
- --{{ $name | replace "_" "-" }}
{{- end }}
{{- else }}
- {{ printf "--%s=%s" ($name | replace "_" "-") (include "triton-llm.word" $value) | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Copies an engine from the object store, or to it. Arguments: root, workload, fetch or store. */ -}}
{{- define "triton-llm.copyContainer" -}}
{{- $root := index . 0 -}}
{{- $item := index . 1 -}}
{{- $remote := printf "%s/%s" $root.Values.storage.objectStore.path $item.key -}}
{{- $local := printf "/engines/%s" $item.key -}}
{{- $fetch := eq (index . 2) "fetch" -}}
- name: {{ index . 2 }}-engine
  image: {{ include "triton-llm.image" (list $root "objectStore") }}
  imagePullPolicy: {{ $root.Values.images.pullPolicy }}
  args: {{ ternary (list "copy" "--retries=1000" "--retries-sleep=10s" "--error-on-no-transfer" $remote $local) (list "copy" $local $remote) $fetch | toJson }}
  envFrom:
    - secretRef: {name: {{ $root.Values.storage.objectStore.secretName }}}
  env:
    {{- include "triton-llm.environment" $root | nindent 4 }}
  securityContext:
    {{- include "triton-llm.containerSecurity" $root | nindent 4 }}
  resources:
    requests: {cpu: 250m, memory: 256Mi}
    limits: {cpu: "2", memory: 1Gi}
  volumeMounts:
    - {name: engines, mountPath: /engines}
    - {name: home, mountPath: /srv/triton-llm/home}
    - {name: tmp, mountPath: /tmp}
{{- end -}}

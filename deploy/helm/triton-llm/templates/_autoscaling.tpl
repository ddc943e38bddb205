{{- /* The one behaviour of both kinds. Argument: autoscaling. */ -}}
{{- define "triton-llm.behavior" -}}
scaleUp:
  stabilizationWindowSeconds: {{ .scaleUpStabilizationSeconds | int }}
  selectPolicy: Max
  policies:
    - {type: Pods, value: 4, periodSeconds: 60}
    - {type: Percent, value: {{ .scaleUpPercent | int }}, periodSeconds: 60}
scaleDown:
  stabilizationWindowSeconds: {{ .scaleDownStabilizationSeconds | int }}
  selectPolicy: Max
  policies:
    - {type: Percent, value: {{ .scaleDownPercent | int }}, periodSeconds: 60}
    - {type: Pods, value: 1, periodSeconds: 60}
{{- end -}}

{{- define "triton-llm.scaleTarget" -}}
apiVersion: {{ ternary "leaderworkerset.x-k8s.io/v1" "apps/v1" .model.multiNode.enabled }}
kind: {{ ternary "LeaderWorkerSet" "Deployment" .model.multiNode.enabled }}
name: {{ .object }}
{{- end -}}

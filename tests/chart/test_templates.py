"""Template by template: nothing where it is off, and then what it promises."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.chart.render import Rendered, pods, render
from triton_launcher import drain
from triton_launcher.options import ServeOptions

OFF: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "the gateway": (
        {"gateway": {"enabled": False}, "tests": {"enabled": False}},
        ("Deployment:gateway", "Service:gateway"),
    ),
    "ingress": ({}, ("Ingress",)),
    "a route": ({}, ("HTTPRoute",)),
    "several nodes": ({}, ("LeaderWorkerSet",)),
    "a pool": ({}, ("InferencePool",)),
    "monitoring": ({}, ("ServiceMonitor", "PodMonitor")),
    "policies": ({"networkPolicy": {"enabled": False}}, ("NetworkPolicy",)),
    "budgets": ({"podDisruptionBudget": {"enabled": False}}, ("PodDisruptionBudget",)),
    "an account": ({"serviceAccount": {"create": False}}, ("ServiceAccount",)),
    "a claim": ({"storage": {"kind": "ephemeral"}}, ("PersistentVolumeClaim", "Job")),
    "a build": ({"modelDefaults": {"build": {"enabled": False}}}, ("Job",)),
    "the hooks": ({"tests": {"enabled": False}}, ("Pod",)),
}
NODES = {
    "name": "m",
    "engine": "tensorrt_llm",
    "tp": 8,
    "pp": 2,
    "multiNode": {"enabled": True, "sshSecretName": "ranks"},
}
ROUTE = {"enabled": True, "parentRefs": [{"name": "g"}]}


@pytest.mark.parametrize(("values", "kinds"), OFF.values(), ids=OFF)
def test_what_is_off_renders_nothing(values: dict[str, Any], kinds: tuple[str, ...]) -> None:
    rendered = render(values)
    for kind, _, name in (each.partition(":") for each in kinds):
        assert not rendered.of(kind, name)


def server(rendered: Rendered, name: str = "smollm2") -> dict[str, Any]:
    pod: dict[str, Any] = rendered.one("Deployment", name)["spec"]["template"]["spec"]
    return pod


def key(**model: Any) -> str:
    rendered = render({"models": [{"name": "m", **model}]})
    annotations = rendered.one("Deployment", "-m")["spec"]["template"]["metadata"]["annotations"]
    return str(annotations["triton-llm/engine-key"])


@pytest.mark.parametrize(
    "change",
    [
        {"source": "org/x"},
        {"revision": "abc"},
        {"quant": "int4"},
        {"limits": {"maxSeqLen": 9}},
        {"buildOptions": {"int4_ratio": 0.5}},
        {"gpu": {"kind": "H100"}},
        {"engine": "onnx"},
    ],
)
def test_an_engines_key_is_what_it_is_made_of(change: dict[str, Any]) -> None:
    assert key(**change) != key()


def test_what_only_serves_leaves_the_key() -> None:
    assert key(serving={"max_running": 8}, replicas=3) == key()


def test_the_job_builds_what_the_servers_wait_for() -> None:
    rendered = render()
    (build,) = rendered.one("Job")["spec"]["template"]["spec"]["containers"]
    (enter,) = server(rendered)["initContainers"]
    folder = next(word.partition("=")[2] for word in build["args"] if word.startswith("--engines="))
    assert enter["args"][0] == f"{folder}/smollm2"
    assert rendered.one("Job")["metadata"]["name"].endswith(folder.rpartition("/")[2][:8])


def test_the_probes_ask_the_launcher() -> None:
    (container,) = server(render({"modelDefaults": {"startSeconds": 300}}))["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "health"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/live", "port": "health"}
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] > 300


def test_the_grace_counts_the_launchers_own_patience() -> None:
    """8 in the template: tritonserver's exit timeout and the launcher's spare seconds."""
    assert ServeOptions().exit_seconds + drain._SPARE_SECONDS == 8
    values = {"drain": {"preStopSeconds": 20, "drainSeconds": 100, "marginSeconds": 2}}
    assert server(render({"modelDefaults": values}))["terminationGracePeriodSeconds"] == 130


def test_spot_ends_within_the_notice_and_keeps_replicas_apart() -> None:
    spot = {"enabled": True, "noticeSeconds": 25, "tolerations": [{"key": "spot", "operator": "Exists"}]}
    rendered = render({"models": [{"name": "m", "spot": spot, "drain": {"drainSeconds": 300}}]})
    pod = server(rendered, "-m")
    assert pod["terminationGracePeriodSeconds"] <= 25
    assert {"key": "spot", "operator": "Exists"} in pod["tolerations"]
    assert "podAntiAffinity" in pod["affinity"]
    assert rendered.of("PodDisruptionBudget", "-m")


def test_a_canary_has_its_own_engine_servers_gateway_and_weight() -> None:
    models = [{"name": "a", "canary": {"enabled": True, "quant": "int4", "serving": {"max_running": 8}}}, {"name": "b"}]
    rendered = render({"models": models, "httpRoute": ROUTE, "canary": {"weight": 7}})
    backends = rendered.one("HTTPRoute")["spec"]["rules"][0]["backendRefs"]
    assert [(each["name"], each["weight"]) for each in backends] == [
        ("r-triton-llm-gateway", 93),
        ("r-triton-llm-gateway-canary", 7),
    ]
    (canary,) = server(rendered, "gateway-canary")["containers"]
    upstreams = [word.partition("=")[2] for word in canary["args"] if word.startswith("--upstream")]
    assert upstreams == [
        "r-triton-llm-a-canary-pods.llm.svc:8001,8003",
        "r-triton-llm-b-pods.llm.svc:8001,8003",
    ]
    assert len(rendered.of("Job")) == 3
    assert "max_running=8" in server(rendered, "a-canary")["initContainers"][0]["args"]
    assert "max_running=8" not in server(rendered, "-a")["initContainers"][0]["args"]


def test_a_group_has_a_leader_that_serves_and_workers_that_wait_for_ranks() -> None:
    rendered = render({"models": [NODES]})
    template = rendered.one("LeaderWorkerSet")["spec"]["leaderWorkerTemplate"]
    assert template["size"] == 2
    leader, worker = (template[part]["spec"]["containers"][0] for part in ("leaderTemplate", "workerTemplate"))
    assert leader["command"][:4] == ["/opt/nvidia/nvidia_entrypoint.sh", "/bin/sh", "/scripts/lead.sh", "8"]
    assert worker["command"][0] == "/usr/sbin/sshd"
    assert {each["resources"]["limits"]["nvidia.com/gpu"] for each in (leader, worker)} == {8}
    for service in rendered.of("Service", "-m") + rendered.of("Service", "-m-pods"):
        assert service["spec"]["selector"]["triton-llm/rank"] == "leader"


def test_a_pools_servers_have_the_label_and_the_port() -> None:
    rendered = render({"models": [{"name": "m", "inferencePool": {"enabled": True, "pickerName": "epp"}}]})
    pool, template = rendered.one("InferencePool")["spec"], rendered.one("Deployment", "-m")["spec"]["template"]
    assert pool["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (container,) = template["spec"]["containers"]
    assert pool["targetPorts"][0]["number"] in [port["containerPort"] for port in container["ports"]]
    assert "--no-gateway" not in container["args"]
    assert "--no-gateway" in server(render())["containers"][0]["args"]


def test_everything_is_denied_but_what_is_needed() -> None:
    rendered = render()
    deny = rendered.one("NetworkPolicy", "-deny")["spec"]
    assert deny["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in deny
    for _, pod in pods(rendered):
        assert deny["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    servers = rendered.one("NetworkPolicy", "-server")["spec"]
    assert "egress" not in servers
    assert rendered.one("NetworkPolicy", "-build")["spec"]["egress"] == [{"ports": [{"port": 443}]}]


@pytest.mark.parametrize("values", [{}, {"models": [NODES]}, {"storage": {"kind": "ephemeral"}}])
def test_every_container_is_hardened(values: dict[str, Any]) -> None:
    for where, pod in pods(render(values)):
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, where
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, where
        assert spec["automountServiceAccountToken"] is False, where
        for container in [*spec.get("initContainers", ()), *spec["containers"]]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, where
            assert {"requests", "limits"} <= set(container["resources"]), where


def test_monitors_find_ports_that_there_are() -> None:
    for kind, ports in (("serviceMonitor", "endpoints"), ("podMonitor", "podMetricsEndpoints")):
        rendered = render({"monitoring": {"kind": kind}})
        for monitor in rendered.of(kind[0].upper() + kind[1:]):
            wanted = {each["port"] for each in monitor["spec"][ports]}
            labels = monitor["spec"]["selector"]["matchLabels"].items()
            services = [each for each in rendered.of("Service") if labels <= each["metadata"]["labels"].items()]
            assert wanted <= {port["name"] for each in services for port in each["spec"]["ports"]}
            assert len(services) == 1, "twice scraped"


def test_the_hooks_ask_every_model() -> None:
    rendered = render({"models": [{"name": "a"}, {"name": "b"}]})
    hooks = {
        each["metadata"]["name"].rpartition("-")[2]: each["spec"]["containers"][0]["args"]
        for each in rendered.of("Pod")
    }
    assert hooks["ready"] == ["http://r-triton-llm-a:8003", "http://r-triton-llm-b:8003"]
    assert hooks["kserve"] == ["http://r-triton-llm-a:8000", "a", "http://r-triton-llm-b:8000", "b"]
    assert hooks["chat"] == ["http://r-triton-llm-gateway:80", "a", "b"]


def test_large_numbers_are_written_in_full() -> None:
    serving = {"kv_cache_bytes": 68719476736, "delivery_share": 0.000001}
    rendered = render({"models": [{"name": "m", "serving": serving, "limits": {"maxSeqLen": 10485760}}]})
    args = server(rendered, "-m")["initContainers"][0]["args"]
    assert "kv_cache_bytes=68719476736" in args
    assert "--max-seq-len=10485760" in rendered.one("Job")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert not re.search(r"\d[eE]\+\d", str(rendered))


_NAME = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", fullmatch=True).filter(
    lambda name: not re.search(r"-(tokenizer|generator|detokenizer|unary|scorer)$", name)
)


@settings(max_examples=5, phases=[Phase.explicit, Phase.generate])  # a rendering each: shrinking would take minutes
@given(
    st.lists(_NAME, min_size=2, max_size=4, unique=True),
    st.from_regex(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?", fullmatch=True),
)
def test_names_are_kubernetes_whatever_models_and_releases_are_called(names: list[str], release: str) -> None:
    models = [{"name": name, "canary": {"enabled": True}} for name in names]
    rendered = render({"models": models, "httpRoute": ROUTE}, release=release)
    for each in rendered:
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", each["metadata"]["name"])
        for label in each["metadata"]["labels"].values():
            assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", label)
    made = [(each["kind"], each["metadata"]["name"]) for each in rendered]
    assert len(made) == len(set(made))
    told = {
        each["metadata"]["annotations"]["triton-llm/model"]
        for _, each in pods(rendered.of("Deployment"))
        if "annotations" in each["metadata"]
    }
    assert told == set(names)

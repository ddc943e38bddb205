"""The dashboards: each panel's queries. Grafana's files and the report's pictures are made of this table."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DASHBOARDS", "Dashboard", "Panel", "Query"]

# What Grafana puts in place of its variable: one model, or all.
_MODEL = 'model=~"$model"'


@dataclass(frozen=True)
class Query:
    """``legend``: of each series, by its labels in double braces."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """``unit``: Grafana's name of it. ``needs``: what must be scraped for it beside Triton."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    needs: str = ""


@dataclass(frozen=True)
class Dashboard:
    uid: str
    title: str
    panels: tuple[Panel, ...]


def _quantiles(metric: str) -> tuple[Query, ...]:
    rate = f"sum by (le) (rate({metric}_bucket{{{_MODEL}}}[5m]))"
    return tuple(Query(f"histogram_quantile({q}, {rate})", f"p{round(q * 100)}") for q in (0.5, 0.95, 0.99))


def _sum(metric: str, by: str = "model, version", legend: str = "{{model}}:{{version}}") -> Query:
    return Query(f"sum by ({by}) ({metric}{{{_MODEL}}})", legend)


def _rate(metric: str, by: str = "model, version", legend: str = "{{model}}:{{version}}") -> Query:
    return Query(f"sum by ({by}) (rate({metric}{{{_MODEL}}}[5m]))", legend)


OPERATOR = Dashboard(
    "triton-llm-operator",
    "triton-llm: operator",
    (
        Panel(
            "Alerts that fire", "none", (Query('ALERTS{alertstate="firing"}', "{{alertname}} {{model}}{{instance}}"),)
        ),
        Panel("Servers that are ready", "none", (Query("triton_llm_launcher_ready", "{{instance}}"),), "launcher"),
        Panel(
            "Restarts in an hour",
            "none",
            (Query("increase(triton_llm_launcher_restarts_total[1h])", "{{instance}}"),),
            "launcher",
        ),
        Panel("Requests running", "none", (_sum("triton_llm_requests_running"),)),
        Panel("Requests waiting", "none", (_sum("triton_llm_requests_waiting"),)),
        Panel(
            "Requests that ended",
            "reqps",
            (_rate("triton_llm_requests_finished_total", "finish_reason", "{{finish_reason}}"),),
        ),
        Panel("Errors", "reqps", (_rate("triton_llm_errors_total", "code, reason", "{{code}} {{reason}}"),)),
        Panel(
            "Error budget burnt in an hour, in budgets",
            "none",
            (Query('triton_llm:errors:ratio_rate1h{model=~"$model"} / 0.005', "{{model}}"),),
        ),
        Panel("Steps", "ops", (_rate("triton_llm_engine_steps_total"),)),
        Panel(
            "Servers that the gateway asks",
            "none",
            (Query("triton_llm_gateway_server_ready", "{{server}}"),),
            "gateway",
        ),
        Panel(
            "Breakers that are open",
            "none",
            (Query('triton_llm_gateway_breaker_state{state="open"}', "{{server}}"),),
            "gateway",
        ),
        Panel(
            "Answers of the gateway",
            "reqps",
            (Query("sum by (outcome) (rate(triton_llm_gateway_requests_total[5m]))", "{{outcome}}"),),
            "gateway",
        ),
    ),
)

CAPACITY = Dashboard(
    "triton-llm-capacity",
    "triton-llm: capacity",
    (
        Panel("Output tokens", "none", (_rate("triton_llm_output_tokens_total"),)),
        Panel("Prompt tokens", "none", (_rate("triton_llm_prompt_tokens_total"),)),
        Panel("KV cache in use", "percentunit", (_sum("triton_llm_kv_blocks_used_ratio"),)),
        Panel("Preemptions", "ops", (_rate("triton_llm_preemptions_total"),)),
        Panel(
            "Prompt tokens found in the prefix cache",
            "percentunit",
            (Query('triton_llm:prefix_hits:ratio_rate5m{model=~"$model"}', "{{model}}"),),
        ),
        Panel(
            "KV blocks kept outside the cache",
            "none",
            (
                _sum("triton_llm_kv_host_blocks", legend="{{model}} host"),
                _sum("triton_llm_kv_disk_blocks", legend="{{model}} disk"),
            ),
        ),
        Panel(
            "Guessed tokens that were right",
            "percentunit",
            (
                Query(
                    f"sum by (model) (rate(triton_llm_draft_tokens_accepted_total{{{_MODEL}}}[5m])) "
                    f"/ sum by (model) (rate(triton_llm_draft_tokens_proposed_total{{{_MODEL}}}[5m]))",
                    "{{model}}",
                ),
            ),
        ),
        Panel(
            "By NVIDIA's names: waiting and scheduled",
            "none",
            (
                Query(
                    f'sum by (request_type) (nv_trt_llm_request_metrics{{request_type=~"waiting|scheduled",{_MODEL}}})',
                    "{{request_type}}",
                ),
            ),
        ),
        Panel("GPU utilisation", "percent", (Query("DCGM_FI_DEV_GPU_UTIL", "{{Hostname}} {{gpu}}"),), "dcgm"),
        Panel(
            "GPU memory in use",
            "percentunit",
            (Query("DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)", "{{Hostname}} {{gpu}}"),),
            "dcgm",
        ),
        Panel("GPU temperature", "celsius", (Query("DCGM_FI_DEV_GPU_TEMP", "{{Hostname}} {{gpu}}"),), "dcgm"),
        Panel("GPU power", "watt", (Query("DCGM_FI_DEV_POWER_USAGE", "{{Hostname}} {{gpu}}"),), "dcgm"),
        Panel("Dollars an hour", "currencyUSD", (Query("triton_llm:dollars_per_hour", "servers"),)),
        Panel(
            "Dollars of a million output tokens",
            "currencyUSD",
            (
                Query("triton_llm:dollars_per_million_tokens", "cost"),
                Query("triton_llm:budget_dollars_per_million_tokens", "budget"),
            ),
        ),
    ),
)

LATENCY = Dashboard(
    "triton-llm-latency",
    "triton-llm: latency of requests",
    (
        Panel("Time to first token", "s", _quantiles("triton_llm_time_to_first_token_seconds")),
        Panel("Time between two tokens", "s", _quantiles("triton_llm_inter_token_latency_seconds")),
        Panel("Time in the queue", "s", _quantiles("triton_llm_queue_time_seconds")),
        Panel("Whole requests", "s", _quantiles("triton_llm_e2e_latency_seconds")),
        Panel("Prompt tokens of a request", "none", _quantiles("triton_llm_request_prompt_tokens")),
        Panel("Output tokens of a request", "none", _quantiles("triton_llm_request_output_tokens")),
        Panel(
            "First tokens slower than 2 s",
            "percentunit",
            (
                Query('triton_llm:ttft_slow:ratio_rate5m{model=~"$model"}', "{{model}} 5 min"),
                Query('triton_llm:ttft_slow:ratio_rate1h{model=~"$model"}', "{{model}} 1 h"),
            ),
        ),
        Panel(
            "Time to first token at the gateway, p95",
            "s",
            (
                Query(
                    "histogram_quantile(0.95, sum by (le, model) "
                    "(rate(triton_llm_gateway_time_to_first_token_seconds_bucket[5m])))",
                    "{{model}}",
                ),
            ),
            "gateway",
        ),
    ),
)

DASHBOARDS = (OPERATOR, CAPACITY, LATENCY)

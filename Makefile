# One word per task, the same here and in CI. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := serve,build,client,gateway,otel,bench,dev

MODEL ?= smollm2
ROLE ?= text
NAME ?= $(patsubst %.gguf,%,$(notdir $(patsubst %/,%,$(MODEL))))$(if $(filter scorer,$(ROLE)),-scorer)
ENGINE ?= auto
QUANT ?= $(if $(filter scorer,$(ROLE)),none,int8)
HOST ?= 127.0.0.1
HTTP_PORT ?= 8000
GRPC_PORT ?= 8001
METRICS_PORT ?= 8002
HEALTH_PORT ?= 8003
GATEWAY_PORT ?= 9000
export HOST HTTP_PORT GRPC_PORT METRICS_PORT HEALTH_PORT GATEWAY_PORT
REQUESTS ?= 2000
MINUTES ?= 60
ROUNDS ?= 5
PROMPT ?= What is the capital of France?

BUILD = $(BIN)/triton-llm build "$(MODEL)" --name "$(NAME)" --role $(ROLE) --engine $(ENGINE) --quant $(QUANT) \
	$(if $(REVISION),--revision "$(REVISION)") $(if $(FORCE),--force) $(if $(DRY_RUN),--dry-run) \
	$(if $(TRUST_REMOTE_CODE),--trust-remote-code) \
	$(if $(INT4_RATIO),--int4-ratio $(INT4_RATIO)) $(if $(ALLOW_QUALITY_LOSS),--allow-quality-loss) \
	$(if $(TP),--tp $(TP)) $(if $(PP),--pp $(PP)) $(if $(KV_DTYPE),--kv-dtype $(KV_DTYPE)) \
	$(if $(CALIB),--calib "$(CALIB)") $(if $(GPU),--gpu "$(GPU)") \
	$(if $(MAX_BATCH_SIZE),--max-batch-size $(MAX_BATCH_SIZE)) $(if $(MAX_INPUT_LEN),--max-input-len $(MAX_INPUT_LEN)) \
	$(if $(MAX_SEQ_LEN),--max-seq-len $(MAX_SEQ_LEN)) $(if $(MAX_NUM_TOKENS),--max-num-tokens $(MAX_NUM_TOKENS))

.PHONY: help setup serve test test-unit test-server test-browser test-gpu chart helm-schema helm-golden autoscaling lint format build-engine repository chat generate bench perf-analyzer soak perplexity docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup: $(VENV)/.installed ## make .venv with everything for build, serve and test; quick when nothing changed

# TORCH_INDEX_URL, unset by default, adds an index that holds the CPU build of torch; without it pip may choose the
# CUDA build, which works but is several GB.
$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		$(if $(TORCH_INDEX_URL),--extra-index-url "$(TORCH_INDEX_URL)") --editable '.[$(EXTRAS)]'
	touch $@

build-engine: setup ## MODEL=… NAME=… QUANT=none|int8|int4: build an engine artifact
	$(BUILD)

repository: setup ## write the model repository's entry of NAME
	$(BIN)/triton-llm repo add "$(NAME)"

serve: setup ## build what is missing, start Triton and the gateway, print the URLs; Ctrl-C stops it
	$(BUILD)
	$(BIN)/triton-llm repo add "$(NAME)"
	exec $(BIN)/triton-llm serve --model "$(NAME)"

chat: setup ## talk with the served model
	$(BIN)/triton-llm chat --model "$(NAME)"

generate: setup ## PROMPT=…: one answer of the served model
	$(BIN)/triton-llm generate --model "$(NAME)" --chat "$(PROMPT)"

bench: setup ## every figure of docs/performance.md beside its target, under 25 minutes; JSON, CSV, HTML in run/bench
	$(BUILD)
	$(BIN)/triton-llm bench --model "$(NAME)" --report run/bench $(BENCH_OPTIONS)

perf-analyzer: setup ## NVIDIA's perf_analyzer against the running server's NAME; CSVs in .perf-analyzer/results
	$(BIN)/triton-llm bench perf-analyzer --model "$(NAME)"

# One folder after the other, so that one's servers are gone before the next one's start; all run, whichever fails.
SERVER_RING = failed=; for part in $(sort $(dir $(wildcard tests/server/*/test_*.py))) $(wildcard tests/server/test_*.py); \
	do $(BIN)/python -m pytest $$part || failed="$$failed $$part"; done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

test: setup ## build the default model, then every test this machine can run
	$(BIN)/triton-llm build smollm2
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/unit tests/contract
	$(SERVER_RING)
	$(BIN)/python -m pytest tests/browser

test-unit: setup ## the unit and contract rings: seconds
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/unit tests/contract

test-server: setup ## the server ring: a real tritonserver
	$(SERVER_RING)

test-browser: setup ## the browser ring: the chat page in headless Chromium; screenshots in run/screenshots
	$(BIN)/python -m pytest tests/browser

# In the GPU container the tests see its packages, and nothing of the CPU engine is installed.
HAS_TRTLLM = $(shell $(PYTHON) -c "import importlib.util as u; print(u.find_spec('tensorrt_llm') and 1 or '')")
GPU_VENV := .venv-gpu

test-gpu: ## the first run on hardware (docs/tensorrt_llm.md); skipped with the reason where there is no GPU
	$(MAKE) --no-print-directory $(if $(HAS_TRTLLM),$(GPU_VENV)/.installed,setup)
	$(if $(HAS_TRTLLM),$(GPU_VENV),$(VENV))/bin/python -m pytest tests/gpu

$(GPU_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv --system-site-packages $(GPU_VENV)
	$(GPU_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[gpu-serve,client,dev]'
	touch $@

chart: setup ## images, charts and compose files: no server, no cluster
	$(BIN)/python -m tests.chart.tools
	$(BIN)/python -m pytest tests/chart

helm-schema: setup ## write the chart's values.schema.json
	$(BIN)/python -m deploy.helm.schema

helm-golden: setup ## write tests/chart/golden: look at the difference before you commit it
	$(BIN)/python -m tests.chart.tools
	$(BIN)/python -m tests.chart.golden

autoscaling: setup ## simulate the chart's autoscaling; writes docs/autoscaling.svg
	$(BIN)/python -m tests.chart.tools
	$(BIN)/python -m deploy.autoscaling --plot docs/autoscaling.svg

soak: setup ## REQUESTS=… MINUTES=… ROUNDS=…: load, saturation and chaos; the figures go to docs/reliability.md
	PYTHONPATH=tests/fakes $(BIN)/python -m tests.soak --page docs/reliability.md \
		--requests $(REQUESTS) --minutes $(MINUTES) --rounds $(ROUNDS) \
		$(if $(SOAK_ARTIFACT),--artifact "$(SOAK_ARTIFACT)")

lint: setup ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy triton_llm build_engines backends/python_llm triton_launcher triton_doctor clients/triton_llm_client openai_gateway tests \
		docs/generate

format: setup ## let ruff format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

perplexity: setup ## the default model's perplexity, engine by engine, into docs/quality.md; builds what is missing
	$(BIN)/python -m build_engines.perplexity --page docs/quality.md

docs: setup ## write the pages that are made from code
	$(BIN)/python -m docs.generate

clean: ## remove what was built here (not the engines)
	rm -rf $(VENV) $(GPU_VENV) run .perf-analyzer build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

"""Checkpoints from the Hugging Face hub: only safetensors, configuration and tokenizer files are fetched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from build_engines.errors import CheckpointError

__all__ = ["PATTERNS", "fetch"]

PATTERNS = (
    "*.safetensors",
    "*.safetensors.index.json",
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*",
    "vocab.json",
    "merges.txt",
    "hf_quant_config.json",  # of a checkpoint that ModelOpt quantised
    "README.md",  # its front matter declares the licence
)
_CODE = ("*.py",)


def fetch(
    model: str,
    revision: str,
    *,
    offline: bool,
    code: bool = False,
    patterns: Sequence[str] = PATTERNS,
    endpoint: str | None = None,
) -> Path:
    """The snapshot's folder in the hub's own cache; its name is the commit. ``code``: its Python files too.

    The hub's library reads HF_TOKEN, HF_HOME and HF_HUB_OFFLINE by itself, and resumes what was begun.

    Raises:
        CheckpointError: no such model or revision, a licence not accepted, a token missing, or no network.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            model,
            revision=revision or None,
            allow_patterns=[*patterns, *(_CODE if code else ())],
            ignore_patterns=["*/*", "consolidated*"],  # nested files and second copies of the weights
            local_files_only=offline,
            endpoint=endpoint,
        )
    except LocalEntryNotFoundError as error:
        raise _unreachable(model, revision, offline, error) from error
    except HfHubHTTPError as error:
        raise _refused(model, revision, error) from error
    except (ConnectionError, OSError) as error:  # requests' own errors are OSErrors
        if getattr(error, "errno", None):
            raise  # the disk's, not the network's
        raise _unreachable(model, revision, offline, error) from error
    return Path(folder)


def _unreachable(model: str, revision: str, offline: bool, error: Exception) -> CheckpointError:
    cause: BaseException | None = error
    while cause is not None:
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if status is not None:
            return _refused(model, revision, cause)
        cause = cause.__cause__
    why = "offline mode is on" if offline else "the hub cannot be reached"
    return CheckpointError(
        f"model '{model}': no such folder here, not in the hub's cache, and {why}; check the path, connect this "
        "machine to a network, or fetch it elsewhere and name the folder."
    )


def _refused(model: str, revision: str, error: BaseException) -> CheckpointError:
    from huggingface_hub.errors import GatedRepoError, RevisionNotFoundError

    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, GatedRepoError) or status == 403:
        return CheckpointError(
            f"model '{model}': access refused ({status}); its licence must be accepted on its hub page by the account "
            "of HF_TOKEN: accept it, then set HF_TOKEN to a token of that account."
        )
    if isinstance(error, RevisionNotFoundError):
        return CheckpointError(
            f"model '{model}', revision '{revision}': no such branch, tag or commit; name one that exists."
        )
    if status in (401, 404):
        return CheckpointError(
            f"model '{model}': the hub knows no such model, or it is private ({status}); check the id, and set "
            "HF_TOKEN if it is private or its licence must be accepted."
        )
    return CheckpointError(f"model '{model}': the hub answered {status}; try again later. {error}")

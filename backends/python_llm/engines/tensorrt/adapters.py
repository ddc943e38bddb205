"""The LoRA adapters of a served model: folders that its lora_config names; a request chooses one by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from python_llm.engines.tensorrt.library import Library
from python_llm.errors import CallerMistake

__all__ = ["Adapters"]


@dataclass(frozen=True)
class Adapters:
    """``folders``: name -> folder, in the order of ``lora_dir``. ``config``: lora_config as it was given."""

    folders: Mapping[str, Path] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def read(config: Mapping[str, Any] | None, artifact: Path, subject: str) -> Adapters:
        """Folders are named relative to the artifact.

        Raises:
            CallerMistake: no adapter is named, two have one name, or one is no folder.
        """
        if config is None:
            return Adapters()
        subject += ", key 'lora_config.lora_dir'"
        paths = [(artifact / folder).resolve() for folder in config.get("lora_dir", ())]
        folders = {path.name: path for path in paths}
        if not paths:
            raise CallerMistake(f"{subject}: it names no adapter; name the folders of adapters, or leave LoRA out.")
        if len(folders) < len(paths):
            raise CallerMistake(
                f"{subject}: {len(paths)} adapters with {len(folders)} names; a request names an adapter by its "
                "folder's name: rename one."
            )
        for path in paths:
            if not path.is_dir():
                raise CallerMistake(f"{subject}: '{path}' is no folder; name an adapter's.")
        return Adapters(folders, config)

    def arguments(self) -> dict[str, Any]:
        """Of the library's LLM. The first adapter says which modules have any: the library takes one folder here."""
        if not self.folders:
            return {}
        first = str(next(iter(self.folders.values())))
        return {"enable_lora": True, "lora_config": {**self.config, "lora_dir": [first]}}

    def requests(self, library: Library) -> Mapping[str, Any]:
        """Name -> what a request carries: the library reads the folder again when its cache has dropped the adapter."""
        source = self.config.get("lora_ckpt_source")
        more = {"lora_ckpt_source": source} if source else {}
        return {
            name: library.make(
                "LoRARequest", {"lora_name": name, "lora_int_id": number, "lora_path": str(folder), **more}
            )
            for number, (name, folder) in enumerate(self.folders.items(), 1)
        }

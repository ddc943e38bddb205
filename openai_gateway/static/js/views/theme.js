// Light, dark, or as the system is.

import { byId } from "../element.js";

export function watchTheme(vault) {
  const group = byId("theme");
  const theme = vault.get("theme", "system");
  (group.querySelector(`[value="${theme}"]`) ?? group.querySelector('[value="system"]')).checked = true;
  group.addEventListener("change", ({ target }) => {
    vault.set("theme", target.value);
    if (target.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = target.value;
  });
}

// Runs before the first paint, so that a chosen theme does not flash in the other one.
"use strict";
try {
  const theme = JSON.parse(localStorage.getItem("triton-llm.theme"));
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // No storage, or not ours: the system's theme.
}

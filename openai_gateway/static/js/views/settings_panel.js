// How the model is asked, and the key.

import { byId } from "../element.js";

export class SettingsPanel {
  #dialog = byId("settings");
  #system = byId("system");
  #temperature = byId("temperature");
  #length = byId("length");
  #key = byId("key");
  #remember = byId("remember-key");

  /** keyChanged: called when the key is another. */
  constructor(chat, apiKey, keyChanged) {
    this.chat = chat;
    this.apiKey = apiKey;
    this.keyChanged = keyChanged;
    for (const opener of ["open-settings", "open-settings-here"]) byId(opener).addEventListener("click", () => this.open());
    this.#system.addEventListener("input", () => chat.set({ system: this.#system.value }));
    this.#temperature.addEventListener("input", () => this.#setTemperature());
    this.#length.addEventListener("input", () => this.#setLength());
    byId("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#dialog.close(); // which keeps it
    });
    this.#dialog.addEventListener("close", () => this.#keepKey());
  }

  open() {
    const { system, temperature, length } = this.chat.conversation.settings;
    this.#system.value = system;
    this.#temperature.value = temperature;
    this.#length.value = length ?? "";
    this.#key.value = this.apiKey.get();
    this.#remember.checked = this.apiKey.remembered;
    this.#showTemperature();
    this.#dialog.showModal();
  }

  /** Open at the key, which the gateway asks for. */
  openKey() {
    this.open();
    this.#key.focus();
  }

  #setTemperature() {
    this.chat.set({ temperature: Number(this.#temperature.value) });
    this.#showTemperature();
  }

  #showTemperature() {
    byId("temperature-value").value = Number(this.#temperature.value).toFixed(1);
  }

  #setLength() {
    if (!this.#length.checkValidity()) return this.#length.reportValidity();
    this.chat.set({ length: this.#length.value === "" ? null : Number(this.#length.value) });
  }

  #keepKey() {
    const key = this.#key.value.trim();
    const same = key === this.apiKey.get() && this.#remember.checked === this.apiKey.remembered;
    if (same) return;
    this.apiKey.set(key, this.#remember.checked);
    this.keyChanged();
  }
}

// Which model answers, and whether the gateway is there.

import { byId, element } from "../element.js";

export class ModelPicker {
  #select = byId("model");
  #connection = byId("connection");

  /** chosen: called with a model's name. */
  constructor(chat, chosen) {
    this.chat = chat;
    this.names = [];
    this.#select.addEventListener("change", () => chosen(this.#select.value));
    chat.addEventListener("opened", () => this.#show());
    this.#show();
  }

  /** names: of the served models; chooses the first where the conversation's is none of them and has not begun. */
  offer(names) {
    this.names = names;
    const { settings, messages } = this.chat.conversation;
    if (!names.includes(settings.model) && (messages.length === 0 || settings.model === "")) settings.model = names[0] ?? "";
    this.#show();
    this.#say(names.length > 0 ? "ready" : "away", names.length > 0 ? "ready" : "no model is served");
  }

  away(words) {
    this.#say("away", words);
  }

  #say(state, words) {
    this.#connection.dataset.state = state;
    this.#connection.textContent = words;
  }

  #show() {
    const { model } = this.chat.conversation.settings;
    const names = model === "" || this.names.includes(model) ? this.names : [model, ...this.names];
    const options = names.map((name) => element("option", { value: name }, this.names.includes(name) ? name : `${name} (not served)`));
    this.#select.replaceChildren(...options);
    this.#select.disabled = names.length === 0;
    if (names.length === 0) this.#select.append(element("option", {}, "no model"));
    else this.#select.value = model;
  }
}

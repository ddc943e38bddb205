// The models: state, versions, context; and loading and unloading, where the gateway lets this caller.

import { byId, element } from "../element.js";
import { whole } from "../figures.js";
import { modelCards } from "../models.js";

export class ModelsView {
  #dialog = byId("models");
  #list = byId("model-list");
  #failures = new Map(); // model -> what a load or unload was answered

  /** use: called with a model's name; changed: called after a load or unload. */
  constructor(gateway, use, changed) {
    this.gateway = gateway;
    this.use = use;
    this.changed = changed;
    byId("open-models").addEventListener("click", () => this.open());
    byId("refresh-models").addEventListener("click", () => this.#refresh());
  }

  async open() {
    this.#list.replaceChildren(nothing("Asking the gateway…"));
    this.#failures.clear();
    this.#dialog.showModal();
    await this.#refresh();
  }

  async #refresh() {
    try {
      const [served, admin] = await Promise.all([this.gateway.models(), this.gateway.adminModels()]);
      this.#show(modelCards(served, admin), new Set(served.map(({ id }) => id)), admin !== null);
    } catch (failure) {
      this.#list.replaceChildren(nothing(`${failure.title}. ${failure.said}`));
    }
  }

  #show(cards, served, admin) {
    const views = cards.map((card) => this.#card(card, served.has(card.name), admin));
    this.#list.replaceChildren(...(views.length > 0 ? views : [nothing("No model is served.")]));
  }

  #card(card, served, admin) {
    const said = this.#failures.get(card.name);
    const choices = element("div", { class: "choices" });
    if (served) choices.append(wordButton("Use", `Use ${card.name}`, () => this.#use(card.name)));
    if (admin) choices.append(this.#change(card.name, served ? "unload" : "load"));
    return element(
      "article",
      { class: "model-card", "aria-label": card.name },
      element("h4", {}, card.name),
      element("span", { class: "pill", "data-state": card.state }, card.state),
      element("ul", { class: "facts" }, ...facts(card).map((text) => element("li", {}, text))),
      said ? element("p", { class: "said", role: "alert" }, said) : null,
      choices,
    );
  }

  #use(name) {
    this.#dialog.close();
    this.use(name);
  }

  #change(name, action) {
    const words = action === "load" ? "Load" : "Unload";
    const button = wordButton(words, `${words} ${name}`, async () => {
      button.disabled = true;
      button.textContent = `${words}ing…`;
      this.#failures.delete(name);
      await this.gateway.change(name, action).catch((failure) => this.#failures.set(name, failure.said));
      await Promise.all([this.#refresh(), this.changed()]);
    });
    return button;
  }
}

function facts({ versions, context }) {
  const texts = versions.map(({ version, state, reason }) => {
    const words = `Version ${version}: ${String(state).toLowerCase()}`;
    return reason ? `${words}, ${reason}` : words;
  });
  if (context) texts.push(`Context of ${whole(context)} tokens`);
  return texts;
}

function nothing(text) {
  return element("p", { class: "nothing" }, text);
}

function wordButton(text, label, act) {
  return element("button", { type: "button", class: "button small", "aria-label": label, onclick: act }, text);
}

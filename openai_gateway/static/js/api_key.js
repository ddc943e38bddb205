// The key that the gateway may ask for: forgotten with the tab, unless it is to be remembered.

import { Vault } from "./vault.js";

const NAME = "key";

export class ApiKey {
  #here = new Vault(() => sessionStorage);
  #kept = new Vault();

  get() {
    return this.#here.get(NAME) ?? this.#kept.get(NAME) ?? "";
  }

  get remembered() {
    return this.#kept.get(NAME) !== null;
  }

  set(key, remember) {
    this.#here.remove(NAME);
    this.#kept.remove(NAME);
    if (key) (remember ? this.#kept : this.#here).set(NAME, key);
  }
}

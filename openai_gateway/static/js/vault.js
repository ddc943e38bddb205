// JSON in the browser's storage. Where there is none (a strict private window), it lasts as long as the page.

const PREFIX = "triton-llm.";

export class Vault {
  #storage;
  #memory = new Map();

  /** storage: () => localStorage or sessionStorage; asking for it may raise. */
  constructor(storage = () => localStorage) {
    try {
      this.#storage = storage();
    } catch {
      this.#storage = null;
    }
  }

  get(name, otherwise = null) {
    const text = this.#storage ? this.#storage.getItem(PREFIX + name) : this.#memory.get(name);
    try {
      return text === null || text === undefined ? otherwise : JSON.parse(text);
    } catch {
      return otherwise; // written by something else
    }
  }

  /** False: the storage is full and nothing was kept. */
  set(name, value) {
    const text = JSON.stringify(value);
    try {
      if (this.#storage) this.#storage.setItem(PREFIX + name, text);
      else this.#memory.set(name, text);
      return true;
    } catch {
      return false;
    }
  }

  remove(name) {
    this.#memory.delete(name);
    this.#storage?.removeItem(PREFIX + name);
  }

  /** Names that begin so. */
  names(beginning) {
    if (!this.#storage) return [...this.#memory.keys()].filter((name) => name.startsWith(beginning));
    const full = PREFIX + beginning;
    return Object.keys(this.#storage).filter((name) => name.startsWith(full)).map((name) => name.slice(PREFIX.length));
  }
}

/** The name in the vault that a StorageEvent of another tab is about, or null. */
export function nameOf(event) {
  return event.key?.startsWith(PREFIX) ? event.key.slice(PREFIX.length) : null;
}

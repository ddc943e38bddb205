// The conversations kept in this browser: one entry each, so that tabs do not overwrite one another's.

const SHELF = "conversation.";

export class Library {
  constructor(vault) {
    this.vault = vault;
  }

  /** Newest first: [{id, title, changed}]. */
  list() {
    const all = this.vault.names(SHELF).map((name) => this.vault.get(name)).filter(isConversation);
    return all.map(({ id, title, changed }) => ({ id, title, changed })).sort((a, b) => b.changed - a.changed);
  }

  /** The conversation, or null. An answer that was running when it was kept has been broken off since. */
  get(id) {
    const conversation = this.vault.get(SHELF + id);
    if (!isConversation(conversation)) return null;
    for (const message of conversation.messages) {
      if (message.state === "answering") message.state = "left";
    }
    return conversation;
  }

  /** False: the browser's storage is full. */
  keep(conversation) {
    return this.vault.set(SHELF + conversation.id, conversation);
  }

  remove(id) {
    this.vault.remove(SHELF + id);
  }
}

export function isShelf(name) {
  return name.startsWith(SHELF);
}

function isConversation(value) {
  return typeof value?.id === "string" && Array.isArray(value.messages) && typeof value.settings === "object";
}

// What the gateway says of its models, in one shape.

/** [{name, state, versions: [{version, state}], context, loaded}] of /v1/models, and of /admin/models where allowed. */
export function modelCards(served, admin) {
  const cards = new Map(served.map((model) => [model.id, cardOf(model, "ready")]));
  for (const model of admin ?? []) {
    const before = cards.get(model.id);
    const card = cardOf(model, before?.state ?? "unavailable");
    cards.set(card.name, { ...before, ...card, context: card.context ?? before?.context ?? null });
  }
  return [...cards.values()];
}

function cardOf(model, otherwise) {
  const ready = model.ready === undefined ? otherwise : model.ready ? "ready" : "unavailable";
  return {
    name: model.id ?? model.name,
    state: (model.state ?? ready).toLowerCase(),
    versions: versionsOf(model.versions),
    context: model.context_length ?? model.max_model_len ?? null,
  };
}

/** [{version, state, reason}] out of that same list, or out of {version: "STATE: reason"}. */
function versionsOf(versions) {
  if (Array.isArray(versions)) return versions.map(({ version, state, reason }) => ({ version, state, reason }));
  return Object.entries(versions ?? {}).map(([version, said]) => {
    const [state, ...reason] = String(said).split(": ");
    return { version, state, reason: reason.join(": ") };
  });
}

// What an alert says about itself. Pure: the text of an alert in, facts out.

const LABELS = ["service", "app", "job", "namespace", "cluster", "region", "env", "environment"];

/** {severity, labels: [[name, value]], summary, description, startsAt}; empty where the alert is plain text. */
export function alertFacts(text) {
  const none = { severity: "", labels: [], summary: "", description: "", startsAt: "" };
  if (!text.startsWith("{")) return none;
  let alert;
  try {
    alert = JSON.parse(text);
  } catch {
    return none; // Masking may have made the JSON invalid.
  }
  const [first] = Array.isArray(alert.alerts) ? alert.alerts : [];
  const labels = { ...first?.labels, ...alert.labels, ...alert.groupLabels, ...alert.commonLabels };
  const notes = { ...first?.annotations, ...alert.annotations, ...alert.commonAnnotations };
  const text_ = (value) => (typeof value === "string" ? value.slice(0, 500) : "");
  const summary = text_(notes.summary) || text_(alert.summary);
  const found = [];
  for (const name of LABELS) {
    const value = text_(labels[name] ?? alert[name]);
    if (value && !found.some(([, other]) => other === value)) found.push([name, value]);
  }
  const startsAt = text_(first?.startsAt ?? alert.startsAt ?? alert.starts_at);
  return {
    severity: text_(labels.severity ?? alert.severity).toLowerCase(),
    labels: found,
    summary,
    description: text_(notes.description) || text_(alert.description),
    startsAt: Number.isNaN(Date.parse(startsAt)) || startsAt.startsWith("0001") ? "" : startsAt,
  };
}

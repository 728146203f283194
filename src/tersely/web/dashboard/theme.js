// Apply the stored colour theme before the first paint, so that the page never flashes in the other one.
// Not a module, because modules are deferred until the page is parsed.
try {
  const chosen = localStorage.getItem("tersely-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Without local storage the system setting applies.
}

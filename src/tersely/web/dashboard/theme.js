// Before anything is drawn: the colours that the reader chose last, so that the page never flashes in the others.
// Not a module, because modules wait for the page.
try {
  const chosen = localStorage.getItem("tersely-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing shows what the system has.
}

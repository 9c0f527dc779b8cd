// Before the first paint, so that a page asked to be dark never flashes white.
try {
  const theme = localStorage.getItem("evertick.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden; the system's theme is then the one.
}

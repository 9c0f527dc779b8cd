export function SettingsPage(_: { id: string; query: URLSearchParams }) { return <p>SettingsPage</p>; }

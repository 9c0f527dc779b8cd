export function RunsPage(_: { id: string; query: URLSearchParams }) { return <p>RunsPage</p>; }

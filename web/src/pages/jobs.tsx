export function JobsPage(_: { id: string; query: URLSearchParams }) { return <p>JobsPage</p>; }

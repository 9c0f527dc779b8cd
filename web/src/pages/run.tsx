export function RunPage(_: { id: string; query: URLSearchParams }) { return <p>RunPage</p>; }

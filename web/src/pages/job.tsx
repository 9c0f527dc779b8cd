export function JobPage(_: { id: string; query: URLSearchParams }) { return <p>JobPage</p>; }

export function ExecutorsPage(_: { id: string; query: URLSearchParams }) { return <p>ExecutorsPage</p>; }

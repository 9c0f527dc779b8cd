export function QueuesPage(_: { id: string; query: URLSearchParams }) { return <p>QueuesPage</p>; }

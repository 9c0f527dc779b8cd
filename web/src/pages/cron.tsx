export function CronPage(_: { id: string; query: URLSearchParams }) { return <p>CronPage</p>; }

export function OverviewPage(_: { id: string; query: URLSearchParams }) { return <p>OverviewPage</p>; }

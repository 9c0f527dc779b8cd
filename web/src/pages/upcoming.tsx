export function UpcomingPage(_: { id: string; query: URLSearchParams }) { return <p>UpcomingPage</p>; }

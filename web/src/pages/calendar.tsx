export function CalendarPage(_: { id: string; query: URLSearchParams }) { return <p>CalendarPage</p>; }

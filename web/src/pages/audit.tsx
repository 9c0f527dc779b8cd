export function AuditPage(_: { id: string; query: URLSearchParams }) { return <p>AuditPage</p>; }

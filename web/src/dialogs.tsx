export function AskedDialog() { return null; }

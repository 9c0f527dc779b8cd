/** Addresses of the API: parts encoded, empty parameters left out. */

export type Query = Record<string, string | number | boolean | null | undefined | readonly string[]>;

/** A path with its parts encoded: ids of runs hold '@' and ':', and ids of jobs may hold more. */
export function path(strings: TemplateStringsArray, ...parts: (string | number)[]): string {
  return strings.reduce((text, next, index) => text + encodeURIComponent(String(parts[index - 1])) + next);
}

export function withQuery(target: string, query: Query): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) search.append(name, String(one));
  }
  const text = search.toString();
  return text ? `${target}?${text}` : target;
}

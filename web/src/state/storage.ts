/** The texts that the page keeps in this browser; without a framework, for the first script. */

export function readKept(name: string): string | null {
  try {
    return localStorage.getItem(`evertick.${name}`);
  } catch {
    return null; // storage may be forbidden
  }
}

/** How wide the timeline was in a window of this width. */
export function knownStage(): number | null {
  const [width, stage] = (readKept("stage") ?? "").split(":").map(Number);
  return width === innerWidth && stage ? stage : null;
}

/** The error of a request, and whether a retry may succeed. */

export class ApiError extends Error {
  constructor(
    /** 0: no response. */
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export function isPassing(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || error.status === 429 || error.status >= 500);
}

/** Whether nothing responded: the line at the top says so for the whole page, and what is shown already needs no message of its own. */
export function isOutage(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || (error.status >= 502 && error.status <= 504));
}

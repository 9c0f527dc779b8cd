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

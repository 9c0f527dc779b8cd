/** What went wrong with a request, and whether it may go well a moment later. */

export class ApiError extends Error {
  constructor(
    /** 0: no answer came. */
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export function isPassing(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || error.status === 429 || error.status >= 500);
}

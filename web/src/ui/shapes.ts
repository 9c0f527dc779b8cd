/** The shapes of outcomes, once for both the page (SVG) and the timeline (canvas); drawn in a box of 16 by 16. */

import type { Shape } from "./outcomes";

export interface Drawing {
  /** Filled in the outcome's colour. */
  body: string;
  /** Stroked: in the ground's colour over a body, in the outcome's own without one. */
  line: string;
}

export const SHAPES: Record<Shape, Drawing> = {
  dot: { body: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2Z", line: "" },
  cross: {
    body: "M3.4 1.8h9.2a1.6 1.6 0 0 1 1.6 1.6v9.2a1.6 1.6 0 0 1-1.6 1.6H3.4a1.6 1.6 0 0 1-1.6-1.6V3.4a1.6 1.6 0 0 1 1.6-1.6Z",
    line: "M5.4 5.4 10.6 10.6M10.6 5.4 5.4 10.6",
  },
  clock: { body: "M8 1.2 15.2 14.2H.8Z", line: "M8 6v3.6M8 11.8v.2" },
  diamond: { body: "M8 .8 15.2 8 8 15.2.8 8Z", line: "M6.4 6.6a1.7 1.7 0 1 1 2.2 1.8c-.4.2-.6.5-.6.9M8 11.4v.1" },
  dash: { body: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2Z", line: "M5.2 8h5.6" },
  slash: { body: "", line: "M8 2.6a5.4 5.4 0 1 0 0 10.8A5.4 5.4 0 0 0 8 2.6ZM4.2 11.8 11.8 4.2" },
  play: { body: "M3.2 1.6 14.4 8 3.2 14.4Z", line: "" },
  pause: { body: "M3.4 2.4h3.2v11.2H3.4ZM9.4 2.4h3.2v11.2H9.4Z", line: "" },
  ring: { body: "", line: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3Z" },
  again: { body: "", line: "M12.6 5.6A5.2 5.2 0 1 0 13.2 8M13 2.6v3.2H9.8" },
};

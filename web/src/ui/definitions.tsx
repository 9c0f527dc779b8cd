/** What is wrong in job files, and in which line. */

import { useState } from "preact/hooks";

const SHOWN = 5;

export function DefinitionProblems({ problems }: { problems: { text: string }[] }) {
  const [isOpen, setOpen] = useState(false);
  if (!problems.length) return null;
  return (
    <div class="note is-bad" role="alert">
      <strong>Some job definitions have errors.</strong>
      <ul class="plain">
        {(isOpen ? problems : problems.slice(0, SHOWN)).map((problem) => (
          <li key={problem.text} class="mono small">
            {problem.text}
          </li>
        ))}
      </ul>
      {!isOpen && problems.length > SHOWN && (
        <button type="button" class="button is-small" onClick={() => setOpen(true)}>
          Show {problems.length - SHOWN} more
        </button>
      )}
    </div>
  );
}

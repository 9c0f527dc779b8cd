/** What is wrong in job files, and in which line. */

const SHOWN = 5;

export function DefinitionProblems({ problems }: { problems: { text: string }[] }) {
  if (!problems.length) return null;
  return (
    <div class="note is-bad" role="alert">
      <strong>Definitions with errors.</strong>
      <ul class="plain">
        {problems.slice(0, SHOWN).map((problem) => (
          <li key={problem.text} class="mono small">
            {problem.text}
          </li>
        ))}
      </ul>
      {problems.length > SHOWN && <p class="small">And {problems.length - SHOWN} more: evertick validate shows them all.</p>}
    </div>
  );
}

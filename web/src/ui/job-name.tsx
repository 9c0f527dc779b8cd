/** A job by its name, and its id where that is another: commands and addresses take the id. */

export function JobName({ job, name }: { job: string; name: string }) {
  if (name === job) return <>{job}</>;
  return (
    <>
      {name} <span class="job-id">{job}</span>
    </>
  );
}

/** A dialog: the browser's own, which keeps the focus inside and closes on Escape. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "./icon";
import { say } from "./toast";

interface Props {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  isWide?: boolean;
}

export function Dialog({ title, onClose, children, isWide }: Props) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = box.current;
    if (dialog && !dialog.open) dialog.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={box}
      class={isWide ? "dialog is-wide" : "dialog"}
      aria-labelledby="dialog-title"
      onCancel={(event) => (event.preventDefault(), onClose())}
      onMouseDown={(event) => event.target === box.current && onClose()}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2 id="dialog-title">{title}</h2>
          <button type="button" class="button is-bare" aria-label="Close" onClick={onClose}>
            <Icon name="close" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

interface FormProps {
  title: string;
  action: string;
  isDangerous?: boolean;
  isWide?: boolean;
  isReady?: boolean;
  onClose: () => void;
  /** Performs the action; returns the message to show. */
  onSubmit: () => Promise<string>;
  children: ComponentChildren;
}

/** A dialog for one action; an error is shown in it, and it stays open. */
export function FormDialog({ title, action, isDangerous, isWide, isReady = true, onClose, onSubmit, children }: FormProps) {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  async function submit(event: Event) {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      say(await onSubmit());
      onClose();
    } catch (error) {
      setProblem((error as Error).message);
      setBusy(false);
    }
  }
  return (
    <Dialog title={title} onClose={onClose} isWide={isWide ?? false}>
      <form onSubmit={submit}>
        <div class="dialog-fields">{children}</div>
        {problem && (
          <p class="note is-bad" role="alert">
            {problem}
          </p>
        )}
        <footer class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Close
          </button>
          <button type="submit" class={isDangerous ? "button is-dangerous" : "button is-main"} disabled={isBusy || !isReady}>
            {action}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

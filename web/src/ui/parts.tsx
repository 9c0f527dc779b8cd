/** Pieces that most pages are put together from. */

import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "./icon";

interface HeadProps {
  title: ComponentChildren;
  about?: ComponentChildren;
  children?: ComponentChildren;
}

export function Head({ title, about, children }: HeadProps) {
  return (
    <div class="head">
      <div class="grow">
        <h1>{title}</h1>
        {about && <div class="head-about">{about}</div>}
      </div>
      {children && <div class="row wrap head-actions">{children}</div>}
    </div>
  );
}

interface CardProps {
  title?: ComponentChildren;
  aside?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}

export function Card({ title, aside, children, class: name = "" }: CardProps) {
  return (
    <section class={`card ${name}`}>
      {(title || aside) && (
        <div class="card-head">
          {title ? <h2 class="grow">{title}</h2> : <span class="grow" />}
          {aside}
        </div>
      )}
      {children}
    </section>
  );
}

/** `isPage`: nothing else is on the page, so its title is the page's. */
export function Empty({ title, children, icon = "timeline", isPage }: { title: string; children?: ComponentChildren; icon?: IconName; isPage?: boolean }) {
  return (
    <div class="empty">
      <span class="empty-icon">
        <Icon name={icon} size={22} />
      </span>
      {isPage ? <h1 class="empty-title">{title}</h1> : <p class="empty-title">{title}</p>}
      {children && <p class="quiet">{children}</p>}
    </div>
  );
}

export function Problem({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  return (
    <div class="note is-bad row wrap" role="alert">
      <span class="grow">{error.message}</span>
      {onRetry && (
        <button type="button" class="button is-small" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Loading({ lines = 4 }: { lines?: number }) {
  return (
    <div class="loading" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, index) => (
        <div key={index} class={`bone bone-${index % 4}`} />
      ))}
    </div>
  );
}

interface ButtonProps {
  children: ComponentChildren;
  onClick: () => void;
  kind?: "main" | "dangerous" | "bare";
  isDisabled?: boolean;
  tip?: string | undefined;
  label?: string;
  isSmall?: boolean;
}

export function Button({ children, onClick, kind, isDisabled, tip, label, isSmall }: ButtonProps) {
  const name = `button${kind ? ` is-${kind}` : ""}${isSmall ? " is-small" : ""}`;
  return (
    <button type="button" class={name} onClick={onClick} disabled={isDisabled} data-tip={tip} aria-label={label}>
      {children}
    </button>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  options: readonly { value: T; text: ComponentChildren; tip?: string }[];
  value: T;
  onPick: (value: T) => void;
}

/** One of a few, side by side. */
export function Choice<T extends string>({ label, options, value, onPick }: ChoiceProps<T>) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          aria-pressed={option.value === value}
          data-tip={option.tip}
          onClick={() => onPick(option.value)}
        >
          {option.text}
        </button>
      ))}
    </div>
  );
}

interface FieldProps {
  label: string;
  hint?: ComponentChildren;
  children: ComponentChildren;
}

export function Field({ label, hint, children }: FieldProps) {
  return (
    <label class="field">
      <span class="field-label">{label}</span>
      {children}
      {hint && <span class="field-hint">{hint}</span>}
    </label>
  );
}

export function Facts({ children }: { children: ComponentChildren }) {
  return <dl class="facts">{children}</dl>;
}

export function Fact({ name, isWide, children }: { name: string; isWide?: boolean; children: ComponentChildren }) {
  return (
    <div class={isWide ? "is-wide" : undefined}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

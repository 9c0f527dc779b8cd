/** The frame: navigation, header, and the page inside. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { session } from "./api/client";
import { connection, staleSince } from "./api/connection";
import { listen } from "./api/events";
import { Keys, listenToKeys } from "./keys";
import { NAVIGATION } from "./navigation";
import { Palette, isPaletteOpen } from "./palette";
import { Login } from "./pages/login";
import { PageOf } from "./pages";
import { place } from "./state/route";
import { now } from "./state/now";
import { awayBecause, signOut, wasSignedIn } from "./state/session";
import { theme, THEMES } from "./state/theme";
import { LOCAL_ZONE, shownZone, zoneChoice } from "./state/zone";
import { ago, short } from "./time/words";
import { Icon } from "./ui/icon";
import { Button, Choice, Loading } from "./ui/parts";
import { Toasts } from "./ui/toast";

const isMenuOpen = signal(false);

export function App() {
  useEffect(listenToKeys, []);
  useEffect(() => {
    isMenuOpen.value = false;
  }, [place.value.path]);
  // The lamp is true on every page, also on one that shows nothing that changes.
  useEffect(() => (session.value ? listen(() => undefined) : undefined), [!session.value]);
  if (session.value === undefined && awayBecause.value) return <Away because={awayBecause.value} />;
  if (session.value === null) return <Login />;
  // Until the server has said who is signed in, there is the frame: index.html begins with it, and nothing moves. A browser that was signed in does not wait.
  const isKnown = session.value !== undefined || wasSignedIn;
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        Skip to content
      </a>
      <Sidebar />
      {isMenuOpen.value && <div class="scrim" onClick={() => (isMenuOpen.value = false)} />}
      <div class="shell-page">
        <Topbar />
        <Staleness />
        <main id="main" class={staleSince.value === null ? undefined : "is-stale"} tabIndex={-1}>
          {isKnown ? <PageOf place={place.value} /> : <Loading />}
        </main>
      </div>
      {isKnown && isPaletteOpen.value && <Palette />}
      <Keys />
      <Toasts />
    </div>
  );
}

/** The page was opened while the server is down: it loads when the server responds. */
function Away({ because }: { because: string }) {
  return (
    <main class="login">
      <div class="login-card" role="status">
        <img src="/favicon.svg" alt="" width="44" height="44" />
        <h1>Evertick</h1>
        <p class="note is-warning">{because}</p>
        <p class="quiet">This page opens when the server responds.</p>
      </div>
    </main>
  );
}

/** Marks data from before an outage as old. */
function Staleness() {
  const since = staleSince.value;
  if (since === null) return null;
  return (
    <p class="staleness" role="alert">
      <Icon name="upcoming" /> No response from the server since {short(since, shownZone(), now.value)} ({ago(since, now.value)}). The data on this page is
      from before that time. Reconnecting.
    </p>
  );
}

const LAMPS = {
  opening: { name: "Connecting", tip: "Opening the connection for changes" },
  live: { name: "Live", tip: "Connected: changes appear immediately" },
  slow: { name: "Slow", tip: "The server is slow to respond: the data on this page may be older" },
  away: { name: "Offline", tip: "The server does not respond. Reconnecting" },
} as const;

function Lamp() {
  const { name, tip } = LAMPS[connection.value];
  return (
    <span class="row small" data-tip={tip}>
      <span class={`lamp is-${connection.value}`} />
      {name}
    </span>
  );
}

/** On a narrow screen, the menu: it takes the focus when it opens, and gives it back on Escape. */
function Sidebar() {
  const here = place.value.path;
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!isMenuOpen.value) return;
    nav.current?.querySelector<HTMLElement>(".nav")?.focus();
    const press = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      isMenuOpen.value = false;
      document.querySelector<HTMLElement>(".menu-button")?.focus();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [isMenuOpen.value]);
  return (
    <nav ref={nav} class={isMenuOpen.value ? "sidebar is-open" : "sidebar"} aria-label="Pages">
      <a class="brand" href="/">
        <img src="/favicon.svg" alt="" width="26" height="26" />
        <span>Evertick</span>
      </a>
      {NAVIGATION.map((group, index) => (
        <ul key={index}>
          {group.map((target) => {
            const isHere = target.path === "/" ? here === "/" : here.startsWith(target.path);
            return (
              <li key={target.path}>
                <a href={target.path} class="nav" aria-current={isHere ? "page" : undefined}>
                  <Icon name={target.icon} />
                  {target.name}
                </a>
              </li>
            );
          })}
        </ul>
      ))}
      {session.value && (
        <div class="sidebar-foot">
          <Lamp />
          <span class="quiet small cut">
            {session.value.node} · {session.value.version}
          </span>
        </div>
      )}
    </nav>
  );
}

function Topbar() {
  return (
    <header class="topbar">
      <button
        type="button"
        class="button is-bare menu-button"
        aria-label="Menu"
        aria-expanded={isMenuOpen.value}
        onClick={() => (isMenuOpen.value = !isMenuOpen.value)}
      >
        <Icon name="menu" />
      </button>
      <button type="button" class="finder" onClick={() => (isPaletteOpen.value = true)}>
        <Icon name="search" />
        <span class="grow">Search jobs, pages and actions</span>
        <kbd>Ctrl K</kbd>
      </button>
      <span class="grow" />
      <ZoneSwitch />
      <ThemeSwitch />
      {session.value === undefined && <span class="button is-bare is-unknown" aria-hidden="true"><Icon name="key" /></span>}
      {session.value && (
        <Button kind="bare" label={`Sign out ${session.value.user}`} tip={`Signed in as ${session.value.user} (${session.value.role}). Sign out`} onClick={signOut}>
          <Icon name="key" />
        </Button>
      )}
    </header>
  );
}

function ZoneSwitch() {
  return (
    <Choice
      label="Time zone"
      value={zoneChoice.value}
      options={[
        { value: "local", text: "Local", tip: `Times in local time: ${LOCAL_ZONE}` },
        { value: "job", text: "Job", tip: "Each job's times in the zone of its schedule" },
        { value: "utc", text: "UTC", tip: "All times in UTC" },
      ]}
      onPick={(value) => (zoneChoice.value = value)}
    />
  );
}

function ThemeSwitch() {
  const icons = { system: "half", light: "sun", dark: "moon" } as const;
  const next = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "system";
  return (
    <Button kind="bare" label={`Theme: ${theme.value}. Change to ${next}`} tip={`Theme: ${theme.value}`} onClick={() => (theme.value = next)}>
      <Icon name={icons[theme.value]} />
    </Button>
  );
}

/** `isUnsettled`: only the first part is shown, because its height decides where the others are. */
export function PageBody({ children, isFull, isUnsettled }: { children: ComponentChildren; isFull?: boolean; isUnsettled?: boolean }) {
  return <div class={`page${isFull ? " is-full" : ""}${isUnsettled ? " is-unsettled" : ""}`}>{children}</div>;
}

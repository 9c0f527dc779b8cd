/** Where the page begins. */

import { render } from "preact";
import { App } from "./app";
import { loadAhead, loadWhenIdle } from "./pages";
import { signInFromAddress } from "./state/session";
import { startClock } from "./state/now";
import { startRouting } from "./state/route";
import { startTips } from "./ui/tip";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/parts.css";
import "./styles/timeline.css";
import "./styles/pages.css";

startRouting();
startClock();
startTips();
loadAhead();
void signInFromAddress();
render(<App />, document.getElementById("app") as HTMLElement);

const IDLE_AFTER_MS = 3_000;
setTimeout(() => (window.requestIdleCallback ?? setTimeout)(loadWhenIdle), IDLE_AFTER_MS);

/** Where the page begins. */

import { render } from "preact";
import { App } from "./app";
import { signInFromAddress } from "./state/session";
import { startRouting } from "./state/route";
import { startTips } from "./ui/tip";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/parts.css";
import "./styles/ribbon.css";
import "./styles/pages.css";

startRouting();
startTips();
void signInFromAddress();
render(<App />, document.getElementById("app") as HTMLElement);

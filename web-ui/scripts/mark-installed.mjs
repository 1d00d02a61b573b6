// Remembers which lock file `node_modules` was filled from, so that the Rust build can tell without
// npm whether it must be filled again.
import { copyFileSync, existsSync } from "node:fs";

if (existsSync("node_modules"))
  copyFileSync("package-lock.json", "node_modules/.installed-lock.json");

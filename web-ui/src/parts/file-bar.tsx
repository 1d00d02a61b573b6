import { FileText } from "lucide-react";
import { Link } from "wouter";
import { address } from "../address.ts";
import { BarButtons } from "./bar.tsx";

/** The bar above an exported file: nothing of it leads to what only a server with a store has. */
export function FileBar() {
  return (
    <nav className="bar" aria-label="Pages">
      <Link href={address.sessions()} className="bar-mark">
        <img src="/mark.svg" alt="" width="16" height="16" />
        <span>Stepwell</span>
      </Link>
      <p className="file-mark">
        <FileText size={14} aria-hidden />
        An exported file, read only. To go on with it: <code>stepwell import FILE</code>
      </p>
      <span className="bar-space" />
      <BarButtons />
    </nav>
  );
}

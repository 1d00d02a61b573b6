import { CircleHelp, Command, Moon, Plus, Sun, SunMoon } from "lucide-react";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { address } from "../address.ts";
import { useApprovals, useAsking } from "../api/queries.ts";
import { runCommand } from "../keys/use-keys.ts";
import { readTheme, type Theme, writeTheme } from "../preferences.ts";
import { Button } from "./button.tsx";

const NEXT_THEME: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

/** The one bar above every page. */
export function Bar() {
  const [here] = useLocation();
  const open = useApprovals(["open"]);
  const asking = useAsking();
  const approvals = open.data?.pages.reduce((sum, page) => sum + page.rows.length, 0) ?? 0;
  const waiting = approvals + asking.rows.length;
  const hasMore = open.hasNextPage || asking.hasNextPage ? "+" : "";
  const links: Array<[string, string, string]> = [
    [address.sessions(), "Sessions", ""],
    [address.approvals(), "Approvals", waiting === 0 ? "" : `${waiting}${hasMore}`],
    [address.agents(), "Agents", ""],
    [address.workers(), "Workers", ""],
  ];
  return (
    <nav className="bar" aria-label="Pages">
      <Link href={address.sessions()} className="bar-mark">
        <img src="/mark.svg" alt="" width="16" height="16" />
        <span>Stepwell</span>
      </Link>
      {links.map(([to, words, badge]) => (
        <Link
          key={to}
          href={to}
          className="bar-link"
          aria-current={isAt(here, to) ? "page" : undefined}
        >
          {words}
          {badge !== "" && (
            <span className="badge" title="waiting for a person">
              {badge}
            </span>
          )}
        </Link>
      ))}
      <span className="bar-space" />
      <Link href={address.newSession()} className="button button-plain bar-new">
        <Plus size={14} aria-hidden />
        <span>New session</span>
      </Link>
      <BarButtons />
    </nav>
  );
}

/** What every bar ends with. */
export function BarButtons() {
  return (
    <>
      <ThemeButton />
      <Button
        kind="quiet"
        className="bar-keys"
        title="Commands"
        aria-label="Commands"
        icon={<Command size={16} aria-hidden />}
        onClick={() => runCommand("palette")}
      />
      <Button
        kind="quiet"
        className="bar-keys"
        title="Keys"
        aria-label="Keys"
        icon={<CircleHelp size={16} aria-hidden />}
        onClick={() => runCommand("help")}
      />
    </>
  );
}

function isAt(here: string, to: string): boolean {
  return to === "/" ? here === "/" || here.startsWith("/s/") : here.startsWith(to);
}

function ThemeButton() {
  const [theme, setTheme] = useState(readTheme);
  const icons: Record<Theme, typeof Sun> = { system: SunMoon, light: Sun, dark: Moon };
  const Icon = icons[theme];
  const label = `Colours: ${theme}. Change to ${NEXT_THEME[theme]}`;
  return (
    <Button
      kind="quiet"
      className="bar-keys"
      title={label}
      aria-label={label}
      icon={<Icon size={16} aria-hidden />}
      onClick={() => {
        writeTheme(NEXT_THEME[theme]);
        setTheme(NEXT_THEME[theme]);
      }}
    />
  );
}

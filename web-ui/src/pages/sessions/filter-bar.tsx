import { Search } from "lucide-react";
import type { RefObject } from "react";
import { useAgents } from "../../api/queries.ts";
import { meaning } from "../../model/status.ts";
import { STATUSES, type Status } from "../../model/types.ts";
import { Button } from "../../parts/button.tsx";
import { isNarrow, type ListFilter } from "./filter.ts";

interface Props {
  readonly filter: ListFilter;
  readonly field: RefObject<HTMLInputElement | null>;
  readonly onChange: (filter: ListFilter) => void;
}

/** What narrows the list. */
export function FilterBar({ filter, field, onChange }: Props) {
  const agents = useAgents().data?.map((it) => it.name) ?? [];
  const names =
    filter.agent === "" || agents.includes(filter.agent) ? agents : [...agents, filter.agent];
  return (
    <search className="filters">
      <span className="filter-text">
        <Search size={14} aria-hidden />
        <input
          ref={field}
          type="search"
          value={filter.text}
          placeholder="Find in titles"
          aria-label="Find in titles"
          onChange={(event) => onChange({ ...filter, text: event.target.value })}
          onKeyDown={(event) => {
            if (event.key === "Escape" && filter.text === "") field.current?.blur();
          }}
        />
      </span>
      <select
        aria-label="Status"
        value={filter.status ?? ""}
        onChange={(event) => {
          const value = event.target.value;
          onChange({ ...filter, status: value === "" ? null : (value as Status) });
        }}
      >
        <option value="">any status</option>
        {STATUSES.map((it) => (
          <option key={it} value={it}>
            {meaning(it).words}
          </option>
        ))}
      </select>
      <select
        aria-label="Agent"
        value={filter.agent}
        onChange={(event) => onChange({ ...filter, agent: event.target.value })}
      >
        <option value="">any agent</option>
        {names.map((it) => (
          <option key={it}>{it}</option>
        ))}
      </select>
      <input
        value={filter.label}
        placeholder="label=value"
        aria-label="Label"
        className="filter-label"
        onChange={(event) => onChange({ ...filter, label: event.target.value })}
      />
      {isNarrow(filter) && (
        <Button
          kind="quiet"
          onClick={() => onChange({ text: "", status: null, agent: "", label: "" })}
        >
          Show all
        </Button>
      )}
    </search>
  );
}

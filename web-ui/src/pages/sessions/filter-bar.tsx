import { Search } from "lucide-react";
import type { RefObject } from "react";
import { useAgents } from "../../api/queries.ts";
import { meaning } from "../../model/status.ts";
import { STATUSES, type Status } from "../../model/types.ts";
import { Button } from "../../parts/button.tsx";
import { ALL, isNarrow, type ListFilter, withLabel, withoutLabel } from "./filter.ts";
import { LabelField } from "./label-field.tsx";

interface Props {
  readonly filter: ListFilter;
  readonly field: RefObject<HTMLInputElement | null>;
  /** The field is done with: the focus goes back to where it was. */
  readonly onLeave: () => void;
  readonly onChange: (filter: ListFilter) => void;
}

/** What narrows the list. */
export function FilterBar({ filter, field, onLeave, onChange }: Props) {
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
            if (event.key !== "Escape") return;
            event.preventDefault();
            onLeave();
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
      <LabelField
        labels={filter.labels}
        onAdd={(label) => onChange(withLabel(filter, label))}
        onRemove={(key) => onChange(withoutLabel(filter, key))}
      />
      {isNarrow(filter) && (
        <Button kind="quiet" onClick={() => onChange(ALL)}>
          Show all
        </Button>
      )}
    </search>
  );
}

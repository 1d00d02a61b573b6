import { X } from "lucide-react";
import { useId, useState } from "react";
import { visible } from "../../model/visible.ts";
import { Button } from "../../parts/button.tsx";
import { LABEL_WORDS, type Label, readLabel, writeLabel } from "./filter.ts";

interface Props {
  readonly labels: readonly Label[];
  readonly onAdd: (label: Label) => void;
  readonly onRemove: (key: string) => void;
}

/** The labels that narrow the list, and a field for another one. */
export function LabelField({ labels, onAdd, onRemove }: Props) {
  const [draft, setDraft] = useState("");
  const [isLeft, setLeft] = useState(false);
  const problem = useId();
  const isWrong = isLeft && draft !== "";
  // A half of it would find nothing: it counts once it is finished.
  const finish = () => {
    const label = readLabel(draft.trim());
    if (label !== null) {
      onAdd(label);
      setDraft("");
    }
    setLeft(label === null);
  };
  return (
    <span className="filter-labels">
      {labels.map((label) => (
        <span key={label[0]} className="filter-chip">
          {visible(writeLabel(label))}
          <Button
            kind="quiet"
            icon={<X size={12} aria-hidden />}
            aria-label={`not only ${visible(writeLabel(label))}`}
            onClick={() => onRemove(label[0])}
          />
        </span>
      ))}
      <input
        value={draft}
        placeholder="label=value"
        aria-label="Label"
        aria-invalid={isWrong}
        aria-describedby={isWrong ? problem : undefined}
        className="filter-label"
        enterKeyHint="done"
        onChange={(event) => {
          setDraft(event.target.value);
          setLeft(false);
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") finish();
        }}
        onBlur={finish}
      />
      {isWrong && (
        <span id={problem} className="tone-failed" role="alert">
          {LABEL_WORDS}
        </span>
      )}
    </span>
  );
}

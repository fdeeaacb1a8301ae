import AttributeEditor from "@cloudscape-design/components/attribute-editor";
import Box from "@cloudscape-design/components/box";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { Pair, PairProblem } from "./problems";

interface Props {
  /** What one is, and several: "label", "labels". */
  noun: string;
  nouns: string;
  /** How many there may be. */
  most: number;
  pairs: Pair[];
  /** What is wrong with each; nothing is shown unless this is given. */
  problems?: PairProblem[];
  /** What AWS says is wrong. */
  errorText?: string;
  valueOptional?: boolean;
  onChange: (pairs: Pair[]) => void;
}

/** PairsEditor edits labels or tags: keys, each with a value. */
export function PairsEditor(props: Props) {
  const { noun, nouns, most, pairs, problems, errorText, valueOptional = false, onChange } = props;
  const change = (index: number, next: Partial<Pair>) =>
    onChange(pairs.map((pair, i) => (i === index ? { ...pair, ...next } : pair)));
  const left = most - pairs.length;
  return (
    <SpaceBetween size="xs">
      <AttributeEditor
        items={pairs}
        addButtonText={`Add ${noun}`}
        removeButtonText="Remove"
        removeButtonAriaLabel={({ key }) => `Remove ${noun} ${key}`}
        disableAddButton={left <= 0}
        empty={`No ${nouns}.`}
        additionalInfo={`Remaining ${nouns} available to add: ${Math.max(left, 0)}`}
        onAddButtonClick={() => onChange([...pairs, { key: "", value: "" }])}
        onRemoveButtonClick={({ detail }) => onChange(pairs.filter((_, i) => i !== detail.itemIndex))}
        definition={[
          {
            label: "Key",
            control: ({ key }, i) => (
              <Input value={key} placeholder="Enter key" onChange={({ detail }) => change(i, { key: detail.value })} />
            ),
            errorText: (_, i) => problems?.[i]?.key,
          },
          {
            label: valueOptional ? "Value - optional" : "Value",
            control: ({ value }, i) => (
              <Input
                value={value}
                placeholder="Enter value"
                onChange={({ detail }) => change(i, { value: detail.value })}
              />
            ),
            errorText: (_, i) => problems?.[i]?.value,
          },
        ]}
      />
      {errorText !== undefined && (
        <Box color="text-status-error" fontSize="body-s">
          <span role="alert">{errorText}</span>
        </Box>
      )}
    </SpaceBetween>
  );
}

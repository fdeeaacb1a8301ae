// The parts of the forms that create and edit a node group.
import AttributeEditor from "@cloudscape-design/components/attribute-editor";
import Box from "@cloudscape-design/components/box";
import Checkbox from "@cloudscape-design/components/checkbox";
import Container from "@cloudscape-design/components/container";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import RadioGroup from "@cloudscape-design/components/radio-group";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { TaintEffect } from "@aws-sdk/client-eks";
import type { ReactNode } from "react";
import { PairsEditor } from "../forms/PairsEditor";
import { labelProblems, type Problems } from "../forms/problems";
import { type Settings, type Share, taintProblems, type TaintRow } from "./form";

interface Props {
  form: Settings;
  problems: Problems<Settings>;
  change: (next: Partial<Settings>) => void;
}

/** ScalingFields asks for the sizes of a node group. */
export function ScalingFields({ form, problems, change }: Props) {
  const size = (member: "desiredSize" | "minSize" | "maxSize", label: string, description: string) => (
    <FormField
      label={label}
      description={description}
      secondaryControl={<Box padding={{ top: "xxs" }}>nodes</Box>}
      errorText={problems[member]}
    >
      <Input
        type="number"
        inputMode="numeric"
        step={1}
        value={form[member]}
        onChange={({ detail }) => change({ [member]: detail.value })}
      />
    </FormField>
  );
  return (
    <Container header={<Header variant="h2">Node group scaling configuration</Header>}>
      <SpaceBetween size="m">
        {size("desiredSize", "Desired size", "Set the desired number of nodes that the group should launch with.")}
        {size("minSize", "Minimum size", "Set the minimum number of nodes that the group can scale in to.")}
        {size("maxSize", "Maximum size", "Set the maximum number of nodes that the group can scale out to.")}
      </SpaceBetween>
    </Container>
  );
}

/** LabelFields asks for the labels of nodes. */
export function LabelFields({ form, problems, change }: Props) {
  return (
    <Container
      header={
        <Header variant="h2" counter={`(${form.labels.length})`} description="Labels are applied to the nodes.">
          Kubernetes labels
        </Header>
      }
    >
      <PairsEditor
        noun="label"
        nouns="labels"
        most={50}
        pairs={form.labels}
        problems={problems.labels === undefined ? undefined : labelProblems(form.labels)}
        errorText={problems.labels}
        onChange={(labels) => change({ labels })}
      />
    </Container>
  );
}

/** The effects of taints, as AWS's console names them. */
export const effects: { value: TaintEffect; label: string }[] = [
  { value: "NO_SCHEDULE", label: "NoSchedule" },
  { value: "NO_EXECUTE", label: "NoExecute" },
  { value: "PREFER_NO_SCHEDULE", label: "PreferNoSchedule" },
];

/** TaintFields asks for the taints of nodes. */
export function TaintFields({ form, problems, change }: Props) {
  const { taints } = form;
  const wrong = problems.taints === undefined ? undefined : taintProblems(taints);
  const set = (index: number, next: Partial<TaintRow>) =>
    change({ taints: taints.map((taint, i) => (i === index ? { ...taint, ...next } : taint)) });
  return (
    <Container
      header={
        <Header
          variant="h2"
          counter={`(${taints.length})`}
          description="Taints keep pods away that do not tolerate them."
        >
          Kubernetes taints
        </Header>
      }
    >
      <SpaceBetween size="xs">
        <AttributeEditor
          items={taints}
          addButtonText="Add taint"
          removeButtonText="Remove"
          removeButtonAriaLabel={({ key }) => `Remove taint ${key}`}
          disableAddButton={taints.length >= 50}
          empty="No taints."
          additionalInfo={`Remaining taints available to add: ${Math.max(50 - taints.length, 0)}`}
          onAddButtonClick={() => change({ taints: [...taints, { key: "", value: "", effect: "NO_SCHEDULE" }] })}
          onRemoveButtonClick={({ detail }) => change({ taints: taints.filter((_, i) => i !== detail.itemIndex) })}
          definition={[
            {
              label: "Key",
              control: ({ key }, i) => (
                <Input value={key} placeholder="Enter key" onChange={({ detail }) => set(i, { key: detail.value })} />
              ),
              errorText: (_, i) => wrong?.[i]?.key,
            },
            {
              label: "Value - optional",
              control: ({ value }, i) => (
                <Input
                  value={value}
                  placeholder="Enter value"
                  onChange={({ detail }) => set(i, { value: detail.value })}
                />
              ),
              errorText: (_, i) => wrong?.[i]?.value,
            },
            {
              label: "Effect",
              control: ({ effect }, i) => (
                <Select
                  options={effects}
                  selectedOption={effects.find(({ value }) => value === effect) ?? null}
                  onChange={({ detail }) => set(i, { effect: detail.selectedOption.value as TaintEffect })}
                />
              ),
            },
          ]}
        />
        {problems.taints !== undefined && (
          <Box color="text-status-error" fontSize="body-s">
            <span role="alert">{problems.taints}</span>
          </Box>
        )}
      </SpaceBetween>
    </Container>
  );
}

interface ShareProps {
  label: string;
  description: ReactNode;
  share: Share;
  errorText?: string;
  optional?: boolean;
  onChange: (share: Share) => void;
}

const units = [
  { value: "number", label: "Number" },
  { value: "percentage", label: "Percentage" },
];

/** ShareField asks for a number of nodes, or a percentage of them. */
function ShareField({ label, description, share, errorText, optional = false, onChange }: ShareProps) {
  return (
    <SpaceBetween size="s">
      <FormField label={optional ? `${label} - optional` : label} description={description}>
        <RadioGroup
          value={share.unit}
          items={units}
          onChange={({ detail }) => onChange({ ...share, unit: detail.value as Share["unit"] })}
        />
      </FormField>
      <FormField
        label="Value"
        secondaryControl={<Box padding={{ top: "xxs" }}>{share.unit === "number" ? "nodes" : "%"}</Box>}
        errorText={errorText}
      >
        <Input
          type="number"
          inputMode="numeric"
          step={1}
          ariaLabel={`${label}: value`}
          value={share.text}
          onChange={({ detail }) => onChange({ ...share, text: detail.value })}
        />
      </FormField>
    </SpaceBetween>
  );
}

/** UpdateFields asks how many nodes an update may replace at a time. */
export function UpdateFields({ form, problems, change }: Props) {
  return (
    <Container header={<Header variant="h2">Node group update configuration</Header>}>
      <SpaceBetween size="m">
        <ShareField
          label="Maximum unavailable"
          description="Set the maximum number or percentage of unavailable nodes during a node group version update."
          share={form.unavailable}
          errorText={problems.unavailable}
          onChange={(unavailable) => change({ unavailable })}
        />
        <FormField label="Update strategy">
          <RadioGroup
            value={form.updateStrategy}
            items={[
              {
                value: "DEFAULT",
                label: "Default",
                description: "New nodes are launched before old ones are terminated.",
              },
              {
                value: "MINIMAL",
                label: "Minimal",
                description: "Old nodes are terminated before new ones are launched, so that no capacity is added.",
              },
            ]}
            onChange={({ detail }) => change({ updateStrategy: detail.value as Settings["updateStrategy"] })}
          />
        </FormField>
      </SpaceBetween>
    </Container>
  );
}

/** RepairFields asks whether unhealthy nodes are repaired. */
export function RepairFields({ form, problems, change }: Props) {
  return (
    <Container header={<Header variant="h2">Node auto repair configuration</Header>}>
      <SpaceBetween size="m">
        <Checkbox
          checked={form.repair}
          description="EKS monitors the health of nodes, and replaces or reboots those that are unhealthy."
          onChange={({ detail }) => change({ repair: detail.checked })}
        >
          Enable node auto repair
        </Checkbox>
        {form.repair && (
          <SpaceBetween size="m">
            <ShareField
              optional
              label="Maximum unhealthy nodes"
              description="Nothing is repaired as long as more nodes are unhealthy."
              share={form.unhealthy}
              errorText={problems.unhealthy}
              onChange={(unhealthy) => change({ unhealthy })}
            />
            <ShareField
              optional
              label="Maximum parallel repairs"
              description="So many nodes are repaired at a time."
              share={form.parallel}
              errorText={problems.parallel}
              onChange={(parallel) => change({ parallel })}
            />
          </SpaceBetween>
        )}
      </SpaceBetween>
    </Container>
  );
}

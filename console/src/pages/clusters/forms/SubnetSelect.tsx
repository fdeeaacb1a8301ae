import FormField from "@cloudscape-design/components/form-field";
import Multiselect from "@cloudscape-design/components/multiselect";
import type { ReactNode } from "react";
import type { Place } from "./subnets";

interface Props {
  label?: string;
  description: ReactNode;
  /** The subnets on offer; undefined as long as they are not known. */
  places: Place[] | undefined;
  /** The IDs of those that are chosen. */
  value: string[];
  empty?: string;
  /** Set where subnets of several VPCs are on offer. */
  withVpc?: boolean;
  errorText?: string;
  onChange: (ids: string[]) => void;
}

const kindOf = ({ isPublic }: Place) => (isPublic === undefined ? "" : isPublic ? "Public" : "Private");

/** SubnetSelect offers subnets, with their zones, blocks and names. */
export function SubnetSelect(props: Props) {
  const { label = "Subnets", description, places, value, empty, withVpc = false, errorText, onChange } = props;
  const options = (places ?? []).map((place) => ({
    value: place.id,
    label: place.id,
    description: [place.name, place.zone, place.cidr, kindOf(place), withVpc && place.vpc].filter(Boolean).join(" | "),
  }));
  const chosen = value.map((id) => options.find((option) => option.value === id) ?? { value: id, label: id });
  return (
    <FormField label={label} description={description} errorText={errorText}>
      <Multiselect
        filteringType="auto"
        placeholder="Select subnets"
        statusType={places === undefined ? "loading" : "finished"}
        loadingText="Loading subnets"
        empty={empty ?? "No subnets"}
        options={options}
        selectedOptions={chosen}
        deselectAriaLabel={({ label: id = "" }) => `Remove ${id}`}
        onChange={({ detail }) => onChange(detail.selectedOptions.map(({ value: id = "" }) => id))}
      />
    </FormField>
  );
}

import FormField from "@cloudscape-design/components/form-field";
import Select from "@cloudscape-design/components/select";

interface Props {
  label: string;
  value: string;
  values: string[];
  disabled?: boolean;
  onChange: (value: string) => void;
}

/** Choice is a field for one of some values. */
export function Choice({ label, value, values, disabled, onChange }: Props) {
  return (
    <FormField label={label}>
      <Select
        selectedOption={{ value, label: value }}
        options={values.map((each) => ({ value: each, label: each }))}
        disabled={disabled}
        onChange={({ detail }) => onChange(detail.selectedOption.value ?? "")}
      />
    </FormField>
  );
}

import ExpandableSection from "@cloudscape-design/components/expandable-section";
import type { ReactNode } from "react";
import type { Command } from "../../../commands/command";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { FormModal } from "../../../components/FormModal";
import { CommandTabs } from "../../../components/ShowCommand";

interface Props {
  title: string;
  /** The text of the button that submits: "Save changes". */
  submit: string;
  disabled?: boolean;
  pending: boolean;
  /** What the form attempts, and why that failed. The modal stays, with the reason. */
  attempted: string;
  error: unknown;
  /** What does the same as the form; none as long as nothing is to be done. */
  commands: Command[];
  onDismiss: () => void;
  onSubmit: () => void;
  children: ReactNode;
}

/** ChangeModal is a form above a page that changes something in AWS: what does the same, and why it failed. */
export function ChangeModal({ pending, attempted, error, commands, children, ...form }: Props) {
  return (
    <FormModal {...form} submitting={pending}>
      {children}
      {commands.length > 0 && (
        <ExpandableSection headerText="The same with other tools">
          <CommandTabs commands={commands} />
        </ExpandableSection>
      )}
      {error !== null && <ErrorAlert attempted={attempted} error={error} />}
    </FormModal>
  );
}

import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import { type ReactNode, useState } from "react";
import type { Command } from "../commands/command";
import { ErrorAlert } from "./ErrorAlert";
import { FormModal } from "./FormModal";
import { CommandTabs } from "./ShowCommand";

interface Props {
  /** What is deleted: "cluster", "node group". */
  what: string;
  name: string;
  /** What has to be typed: the name, unless AWS's console asks for another word, such as "delete". */
  word?: string;
  /** What becomes of what depends on it. */
  children?: ReactNode;
  /** How it is deleted, where there is a choice. */
  options?: ReactNode;
  /** What does the same. */
  commands?: Command[];
  onDismiss: () => void;
  /** OnDelete deletes it. The modal stays, with the reason, where that fails. */
  onDelete: () => Promise<unknown>;
}

/** DeleteModal asks whether something is to be deleted, and takes a typed name for a yes. It is shown while mounted. */
export function DeleteModal({ what, name, word = name, children, options, commands = [], ...rest }: Props) {
  const { onDismiss, onDelete } = rest;
  const [typed, setTyped] = useState("");
  const [deleting, setDeleting] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const submit = async () => {
    setDeleting(true);
    setError(null);
    try {
      await onDelete();
      onDismiss();
    } catch (refused) {
      setError(refused);
      setDeleting(false);
    }
  };
  return (
    <FormModal
      title={`Delete ${what}`}
      submit="Delete"
      disabled={typed !== word}
      submitting={deleting}
      onSubmit={() => void submit()}
      onDismiss={onDismiss}
    >
      <Box variant="span">
        Permanently delete the {what} <b>{name}</b>? You can’t undo this action.
      </Box>
      {children !== undefined && <Alert type="warning">{children}</Alert>}
      {options}
      {commands.length > 0 && (
        <ExpandableSection headerText="The same with other tools">
          <CommandTabs commands={commands} />
        </ExpandableSection>
      )}
      <FormField
        label={
          <>
            To confirm deletion, type <i>{word}</i> in the field.
          </>
        }
      >
        <Input value={typed} onChange={({ detail }) => setTyped(detail.value)} placeholder={word} autoFocus />
      </FormField>
      {error !== null && <ErrorAlert attempted={`Delete ${what} ${name}`} error={error} />}
    </FormModal>
  );
}

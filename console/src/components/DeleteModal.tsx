import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { type ReactNode, useState } from "react";
import { ErrorAlert } from "./ErrorAlert";

interface Props {
  /** What is deleted: "cluster", "node group". */
  what: string;
  name: string;
  /** What has to be typed: the name, unless AWS's console asks for another word, such as "delete". */
  word?: string;
  /** What becomes of what depends on it. */
  children?: ReactNode;
  onDismiss: () => void;
  /** OnDelete deletes it. The modal stays, with the reason, where that fails. */
  onDelete: () => Promise<unknown>;
}

/** DeleteModal asks whether something is to be deleted, and takes a typed name for a yes. It is shown while mounted. */
export function DeleteModal({ what, name, word = name, children, onDismiss, onDelete }: Props) {
  const [typed, setTyped] = useState("");
  const [deleting, setDeleting] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const submit = async () => {
    if (typed !== word || deleting) return;
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
    <Modal
      visible
      header={`Delete ${what}`}
      closeAriaLabel="Close"
      onDismiss={onDismiss}
      footer={
        <Box float="right">
          <SpaceBetween direction="horizontal" size="xs">
            <Button variant="link" onClick={onDismiss}>
              Cancel
            </Button>
            <Button variant="primary" disabled={typed !== word} loading={deleting} onClick={() => void submit()}>
              Delete
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <SpaceBetween size="m">
          <Box variant="span">
            Permanently delete the {what} <b>{name}</b>? You can’t undo this action.
          </Box>
          {children !== undefined && <Alert type="warning">{children}</Alert>}
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
        </SpaceBetween>
      </form>
    </Modal>
  );
}

import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { ReactNode } from "react";

interface Props {
  title: string;
  /** The text of the button that submits: "Save changes". */
  submit: string;
  /** Set where what is entered cannot be submitted. */
  disabled?: boolean;
  submitting: boolean;
  onSubmit: () => void;
  onDismiss: () => void;
  children: ReactNode;
}

/** FormModal is a form in a dialog, with the buttons that submit it or not. It is shown while mounted. */
export function FormModal({ title, submit, disabled = false, submitting, onSubmit, onDismiss, children }: Props) {
  return (
    <Modal
      visible
      header={title}
      closeAriaLabel="Close"
      onDismiss={onDismiss}
      footer={
        <Box float="right">
          <SpaceBetween direction="horizontal" size="xs">
            <Button variant="link" onClick={onDismiss}>
              Cancel
            </Button>
            <Button variant="primary" disabled={disabled} loading={submitting} onClick={onSubmit}>
              {submit}
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!disabled && !submitting) onSubmit();
        }}
      >
        <SpaceBetween size="m">{children}</SpaceBetween>
      </form>
    </Modal>
  );
}

import Button from "@cloudscape-design/components/button";
import ContentLayout from "@cloudscape-design/components/content-layout";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Form from "@cloudscape-design/components/form";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { ReactNode } from "react";
import { useNavigate } from "react-router";
import type { Command } from "../../../commands/command";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { CommandTabs } from "../../../components/ShowCommand";

interface Props {
  title: string;
  /** The text of the button that sends the form. */
  submitText: string;
  /** Where "Cancel" leads. */
  cancelTo: string;
  /** What is attempted, for the message of a failure, and the failure itself. */
  attempted: string;
  error: Error | null;
  pending: boolean;
  /** What does the same with other tools; nothing as long as the form changes nothing. */
  commands: Command[];
  onSubmit: () => void;
  children: ReactNode;
}

/** FormPage is a page with a form, and what does the same with other tools. */
export function FormPage(props: Props) {
  const navigate = useNavigate();
  return (
    <ContentLayout header={<Header variant="h1">{props.title}</Header>}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          props.onSubmit();
        }}
      >
        <Form
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <Button variant="link" formAction="none" onClick={() => void navigate(props.cancelTo)}>
                Cancel
              </Button>
              <Button variant="primary" loading={props.pending}>
                {props.submitText}
              </Button>
            </SpaceBetween>
          }
        >
          <SpaceBetween size="l">
            {props.children}
            <ExpandableSection headerText="The same with other tools" variant="container">
              {props.commands.length === 0 ? "Nothing is changed yet." : <CommandTabs commands={props.commands} />}
            </ExpandableSection>
            {props.error !== null && <ErrorAlert attempted={props.attempted} error={props.error} />}
          </SpaceBetween>
        </Form>
      </form>
    </ContentLayout>
  );
}

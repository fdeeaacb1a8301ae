import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Wizard from "@cloudscape-design/components/wizard";
import { type ReactNode, useState } from "react";
import { describeError } from "../../../aws/errors";
import type { Command } from "../../../commands/command";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { CommandTabs } from "../../../components/ShowCommand";
import { type Problems, type Subjects, subjectOf } from "./problems";

/** A step of a wizard, which asks for some members of a form F. */
export interface Step<F> {
  title: string;
  description?: string;
  fields: (keyof F)[];
  /** What the step asks for; problems are those to show. */
  content: (problems: Problems<F>) => ReactNode;
  /** What the last step says of this one. */
  review: { title: string; items: { label: string; value: ReactNode }[] }[];
}

interface Props<F> {
  steps: Step<F>[];
  /** What is wrong with the form now. */
  problems: Problems<F>;
  /** What AWS refused, if anything, and by which words its subject is known. */
  attempted: string;
  error: Error | null;
  subjects: Subjects<F>;
  /** What makes the same with other tools. */
  commands: Command[];
  pending: boolean;
  onSubmit: () => Promise<unknown>;
  onCancel: () => void;
}

/**
 * CreateWizard asks for what is to be made step by step, as AWS's console does, and shows it all in a last step. A
 * step is left once nothing is wrong with it; what AWS refuses leads back to the step that asks for it.
 */
export function CreateWizard<F>(props: Props<F>) {
  const { steps, problems, error, commands, pending } = props;
  const [active, setActive] = useState(0);
  const [tried, setTried] = useState(-1); // the last step that somebody wanted to leave
  const stepOf = (field: keyof F) => steps.findIndex(({ fields }) => fields.includes(field));
  const isWrong = (index: number) => steps[index]?.fields.some((field) => problems[field] !== undefined) === true;
  const refused = subjectOf(props.subjects, error);
  const shownTo = (index: number): Problems<F> => {
    const shown: Problems<F> = {};
    if (index <= tried) for (const field of steps[index]?.fields ?? []) shown[field] = problems[field];
    if (refused !== undefined) shown[refused] = describeError(error).message;
    return shown;
  };
  const go = (wanted: number) => {
    const wrong = steps.findIndex((_, i) => i >= active && i < wanted && isWrong(i));
    setTried(Math.max(tried, (wrong === -1 ? wanted : wrong + 1) - 1));
    setActive(wrong === -1 ? wanted : wrong);
  };
  const submit = async () => {
    const wrong = steps.findIndex((_, i) => isWrong(i));
    if (wrong !== -1) {
      setTried(steps.length);
      setActive(wrong);
      return;
    }
    try {
      await props.onSubmit();
    } catch (reason) {
      const field = subjectOf(props.subjects, reason);
      if (field !== undefined) setActive(stepOf(field));
    }
  };
  const around = (content: ReactNode) => (
    <SpaceBetween size="l">
      {error !== null && <ErrorAlert attempted={props.attempted} error={error} />}
      {content}
      <ExpandableSection headerText="The same with other tools" variant="container">
        <CommandTabs commands={commands} />
      </ExpandableSection>
    </SpaceBetween>
  );
  return (
    <Wizard
      activeStepIndex={active}
      isLoadingNextStep={pending}
      submitButtonText="Create"
      i18nStrings={{
        stepNumberLabel: (number) => `Step ${number}`,
        collapsedStepsLabel: (number, count) => `Step ${number} of ${count}`,
        navigationAriaLabel: "Steps",
        cancelButton: "Cancel",
        previousButton: "Previous",
        nextButton: "Next",
        optional: "optional",
      }}
      onCancel={props.onCancel}
      onNavigate={({ detail }) => go(detail.requestedStepIndex)}
      onSubmit={() => void submit()}
      steps={[
        ...steps.map(({ title, description, content }, index) => ({
          title,
          description,
          content: around(content(shownTo(index))),
        })),
        {
          title: "Review and create",
          content: around(
            <SpaceBetween size="l">
              {steps.map(({ title, review }, index) => (
                <SpaceBetween key={title} size="xs">
                  <Header
                    variant="h3"
                    headingTagOverride="h2"
                    actions={
                      <Button ariaLabel={`Edit step ${index + 1}`} onClick={() => setActive(index)}>
                        Edit
                      </Button>
                    }
                  >
                    Step {index + 1}: {title}
                  </Header>
                  {review.map((part) => (
                    <Container key={part.title} header={<Header variant="h3">{part.title}</Header>}>
                      <KeyValuePairs columns={3} items={part.items} />
                    </Container>
                  ))}
                </SpaceBetween>
              ))}
            </SpaceBetween>,
          ),
        },
      ]}
    />
  );
}

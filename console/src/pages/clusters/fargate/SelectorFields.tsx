import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { PairsEditor } from "../forms/PairsEditor";
import { mostSelectorLabels, mostSelectors, namespaceProblem, type Selector, selectorLabelProblems } from "./form";

interface Props {
  selectors: Selector[];
  /** What is wrong with them; unless set, nothing is shown. */
  errorText?: string;
  onChange: (selectors: Selector[]) => void;
}

/** SelectorFields asks which pods run on Fargate. */
export function SelectorFields({ selectors, errorText, onChange }: Props) {
  const change = (index: number, next: Partial<Selector>) =>
    onChange(selectors.map((selector, i) => (i === index ? { ...selector, ...next } : selector)));
  return (
    <SpaceBetween size="l">
      {selectors.map(({ namespace, labels }, i) => (
        <Container
          key={i}
          header={
            <Header
              variant="h2"
              description="Pods of the namespace that have all labels run on Fargate. * and ? stand for any characters."
              actions={
                selectors.length > 1 && (
                  <Button
                    ariaLabel={`Remove pod selector ${i + 1}`}
                    onClick={() => onChange(selectors.filter((_, other) => other !== i))}
                  >
                    Remove
                  </Button>
                )
              }
            >
              Pod selector {i + 1}
            </Header>
          }
        >
          <SpaceBetween size="m">
            <FormField
              label="Namespace"
              errorText={errorText === undefined ? undefined : namespaceProblem(namespace)}
            >
              <Input
                value={namespace}
                placeholder="Enter namespace"
                onChange={({ detail }) => change(i, { namespace: detail.value })}
              />
            </FormField>
            <PairsEditor
              noun="label"
              nouns="labels"
              most={mostSelectorLabels}
              valueOptional
              pairs={labels}
              problems={errorText === undefined ? undefined : selectorLabelProblems(labels)}
              onChange={(next) => change(i, { labels: next })}
            />
          </SpaceBetween>
        </Container>
      ))}
      <FormField errorText={errorText}>
        <Button
          disabled={selectors.length >= mostSelectors}
          onClick={() => onChange([...selectors, { namespace: "", labels: [] }])}
        >
          Add namespace
        </Button>
      </FormField>
    </SpaceBetween>
  );
}

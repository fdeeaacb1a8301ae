import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import { PairsEditor } from "./PairsEditor";
import { type Pair, tagProblems } from "./problems";

interface Props {
  /** What has the tags: "node group", "Fargate profile". */
  what: string;
  tags: Pair[];
  /** What is wrong with the tags, once that is to be said. */
  errorText?: string;
  onChange: (tags: Pair[]) => void;
}

/** TagsSection is the section of a form for tags. */
export function TagsSection({ what, tags, errorText, onChange }: Props) {
  return (
    <Container
      header={
        <Header variant="h2" counter={`(${tags.length})`} description={`Tags of the ${what} itself.`}>
          Tags
        </Header>
      }
    >
      <PairsEditor
        noun="tag"
        nouns="tags"
        most={50}
        valueOptional
        pairs={tags}
        problems={errorText === undefined ? undefined : tagProblems(tags)}
        errorText={errorText}
        onChange={onChange}
      />
    </Container>
  );
}

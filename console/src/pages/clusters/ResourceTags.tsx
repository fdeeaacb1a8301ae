import { EKSClient, TagResourceCommand, UntagResourceCommand } from "@aws-sdk/client-eks";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import TagEditor, { getTagsDiff, type TagEditorProps } from "@cloudscape-design/components/tag-editor";
import { useState } from "react";
import { useAwsChange } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { ShowCommand } from "../../components/ShowCommand";
import { useSession } from "../../session/SessionProvider";

interface Props {
  /** What has the tags: "cluster", "node group". */
  what: string;
  arn: string | undefined;
  tags: Record<string, string> | undefined;
}

/** ResourceTags edits the tags of a cluster, or of what belongs to it. */
export function ResourceTags({ what, arn: resourceArn = "", tags: saved }: Props) {
  const { session } = useSession();
  const before: TagEditorProps.Tag[] = Object.entries(saved ?? {}).map(([key, value]) => ({
    key,
    value,
    existing: true,
  }));
  const [edited, setEdited] = useState<{ tags: readonly TagEditorProps.Tag[]; valid: boolean }>();
  const tag = useAwsChange(EKSClient, TagResourceCommand, { attempt: () => `Tag the ${what}` });
  const untag = useAwsChange(EKSClient, UntagResourceCommand, { attempt: () => `Untag the ${what}` });
  const { created: tags, removed } = getTagsDiff(before, edited?.tags ?? before);
  const tagKeys = removed.filter((key) => !(key in tags));
  const hasNew = Object.keys(tags).length > 0;
  const save = async () => {
    try {
      if (tagKeys.length > 0) await untag.mutateAsync({ resourceArn, tagKeys });
      if (hasNew) await tag.mutateAsync({ resourceArn, tags });
      setEdited(undefined);
    } catch {
      // A message above the page says why.
    }
  };
  return (
    <Container
      header={
        <Header
          variant="h2"
          counter={`(${before.length})`}
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <ShowCommand commands={[awsCommand("eks", "list-tags-for-resource", { resourceArn }, session.region)]} />
              <Button disabled={edited === undefined} onClick={() => setEdited(undefined)}>
                Discard changes
              </Button>
              <Button
                variant="primary"
                disabled={edited?.valid !== true || (!hasNew && tagKeys.length === 0)}
                loading={tag.isPending || untag.isPending}
                onClick={() => void save()}
              >
                Save changes
              </Button>
            </SpaceBetween>
          }
        >
          Tags
        </Header>
      }
    >
      <TagEditor
        tags={edited?.tags ?? before}
        tagLimit={50}
        onChange={({ detail }) => setEdited(detail)}
        i18nStrings={tagTexts}
      />
    </Container>
  );
}

export const tagTexts: TagEditorProps.I18nStrings = {
  keyPlaceholder: "Enter key",
  valuePlaceholder: "Enter value",
  addButton: "Add new tag",
  removeButton: "Remove",
  undoButton: "Undo",
  undoPrompt: "This tag will be removed upon saving changes",
  loading: "Loading tags",
  keyHeader: "Key",
  valueHeader: "Value",
  optional: "optional",
  keySuggestion: "Custom tag key",
  valueSuggestion: "Custom tag value",
  emptyTags: "No tags associated with the resource.",
  tooManyKeysSuggestion: "You have more keys than can be displayed",
  tooManyValuesSuggestion: "You have more values than can be displayed",
  keysSuggestionLoading: "Loading tag keys",
  keysSuggestionError: "Tag keys could not be retrieved",
  valuesSuggestionLoading: "Loading tag values",
  valuesSuggestionError: "Tag values could not be retrieved",
  emptyKeyError: "You must specify a tag key",
  maxKeyCharLengthError: "The maximum number of characters you can use in a tag key is 128.",
  maxValueCharLengthError: "The maximum number of characters you can use in a tag value is 256.",
  duplicateKeyError: "You must specify a unique tag key.",
  invalidKeyError: "Invalid key. Keys can only contain Unicode letters, digits, white space and any of: _.:/=+@-",
  invalidValueError: "Invalid value. Values can only contain Unicode letters, digits, white space and any of: _.:/=+@-",
  awsPrefixError: "Cannot start with aws:",
  tagLimit: (available) =>
    available === 1 ? "You can add up to 1 more tag." : `You can add up to ${available} more tags.`,
  tagLimitReached: (limit) => `You have reached the limit of ${limit} tags.`,
  tagLimitExceeded: (limit) => `You have exceeded the limit of ${limit} tags.`,
  enteredKeyLabel: (key) => `Use "${key}"`,
  enteredValueLabel: (value) => `Use "${value}"`,
  itemRemovedAriaLive: "Tag removed.",
};

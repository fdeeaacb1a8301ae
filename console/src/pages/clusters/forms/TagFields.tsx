import TagEditor, { type TagEditorProps } from "@cloudscape-design/components/tag-editor";
import { tagTexts } from "../ResourceTags";

/** The tags of a form, in their order. */
export type Tags = readonly TagEditorProps.Tag[];

/** TagFields edits the tags that something is created with. */
export function TagFields({ tags, onChange }: { tags: Tags; onChange: (tags: Tags) => void }) {
  return (
    <TagEditor tags={tags} tagLimit={50} onChange={({ detail }) => onChange(detail.tags)} i18nStrings={tagTexts} />
  );
}

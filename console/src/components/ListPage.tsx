import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { ResourceTable, type ResourceTableProps } from "./ResourceTable";

interface Props<T>
  extends Pick<ResourceTableProps<T>, "title" | "nouns" | "columns" | "keyOf" | "nameOf" | "commands" | "actions"> {
  query: UseQueryResult<T[]>;
  /** What asks whether something is to be deleted, such as a DeleteModal. */
  deletion: (item: T, onDismiss: () => void) => ReactNode;
}

/** ListPage is a page that lists things, of which one can be selected and deleted. */
export function ListPage<T>({ query, deletion, actions, ...table }: Props<T>) {
  const [selected, setSelected] = useState<T[]>([]);
  const [deleting, setDeleting] = useState<T>();
  const [first] = selected;
  return (
    <>
      <ResourceTable
        {...table}
        variant="full-page"
        items={query.data}
        error={query.error}
        refresh={() => void query.refetch()}
        refreshing={query.isFetching}
        selection="single"
        selected={selected}
        onSelect={setSelected}
        actions={
          <SpaceBetween direction="horizontal" size="xs">
            <Button disabled={first === undefined} onClick={() => setDeleting(first)}>
              Delete
            </Button>
            {actions}
          </SpaceBetween>
        }
      />
      {deleting !== undefined && deletion(deleting, () => setDeleting(undefined))}
    </>
  );
}

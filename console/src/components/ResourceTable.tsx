import { useCollection } from "@cloudscape-design/collection-hooks";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import CollectionPreferences, {
  type CollectionPreferencesProps,
} from "@cloudscape-design/components/collection-preferences";
import Header from "@cloudscape-design/components/header";
import Pagination from "@cloudscape-design/components/pagination";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import TextFilter from "@cloudscape-design/components/text-filter";
import { type ReactNode, useState } from "react";
import type { Command } from "../commands/command";
import { ErrorAlert } from "./ErrorAlert";
import { ShowCommand } from "./ShowCommand";

/** A column. Its text is what filters and sorts by; what is shown may be more. */
export interface Column<T> {
  id: string;
  header: string;
  text: (item: T) => string;
  /** What is shown; the text, unless set. */
  cell?: (item: T) => ReactNode;
  /** Compare sorts; the text does, unless set. */
  compare?: (a: T, b: T) => number;
  /** Hidden columns show once they are chosen in the preferences. */
  hidden?: boolean;
  width?: number;
}

export interface ResourceTableProps<T> {
  /** What is listed, as a title: "Clusters", "Node groups". */
  title: string;
  /** The same in a sentence, one and several: ["cluster", "clusters"]. */
  nouns: [string, string];
  items: T[] | undefined;
  columns: Column<T>[];
  /** The key of an item, and its name in labels. */
  keyOf: (item: T) => string;
  nameOf: (item: T) => string;
  commands: Command[];
  /** Refresh reads the list anew; without it the list is followed. */
  refresh?: () => void;
  refreshing?: boolean;
  error?: Error | null;
  description?: string;
  /** "full-page" for a page that is the table; "container", the default, for one of several. */
  variant?: "container" | "full-page";
  selection?: "single" | "multi";
  selected?: T[];
  onSelect?: (items: T[]) => void;
  /** Buttons, right of the refresh button. */
  actions?: ReactNode;
  /** What the empty table offers: a button that creates the first. */
  emptyAction?: ReactNode;
  headingTag?: "h1" | "h2" | "h3";
}

const pageSizes = [10, 20, 50, 100];

/** ResourceTable is a table as AWS's console has it: counter, filter, sorting, pages, preferences, refresh. */
export function ResourceTable<T>(props: ResourceTableProps<T>) {
  const { title, nouns, columns, keyOf, nameOf, variant = "container", error = null } = props;
  const [one, several] = nouns;
  const [preferences, setPreferences] = usePreferences(title, columns);
  const [filtering, setFiltering] = useState("");
  const items = props.items ?? [];
  const empty = (
    <Box textAlign="center" color="inherit" margin={{ vertical: "xs" }}>
      <SpaceBetween size="m">
        <b>No {several}</b>
        {props.emptyAction}
      </SpaceBetween>
    </Box>
  );
  const noMatch = (
    <Box textAlign="center" color="inherit" margin={{ vertical: "xs" }}>
      <SpaceBetween size="m">
        <b>No matches</b>
        <Button onClick={() => setFiltering("")}>Clear filter</Button>
      </SpaceBetween>
    </Box>
  );
  const wanted = filtering.trim().toLowerCase();
  const matching =
    wanted === "" ? items : items.filter((item) => columns.some((c) => c.text(item).toLowerCase().includes(wanted)));
  const { items: shown, collectionProps, paginationProps } = useCollection(matching, {
    pagination: { pageSize: preferences.pageSize },
    sorting: { defaultState: { sortingColumn: definitionOf(columns[0]) } },
  });

  const count = wanted === "" ? `(${items.length})` : `(${matching.length}/${items.length})`;
  return (
    <SpaceBetween size="m">
      {error !== null && <ErrorAlert attempted={`List ${several}`} error={error} retry={props.refresh} />}
      <Table
        {...collectionProps}
        variant={variant}
        stickyHeader={variant === "full-page"}
        resizableColumns
        enableKeyboardNavigation
        trackBy={keyOf}
        items={shown}
        columnDefinitions={columns.map((c) => definitionOf(c))}
        columnDisplay={preferences.contentDisplay}
        wrapLines={preferences.wrapLines}
        contentDensity={preferences.contentDensity}
        loading={props.items === undefined && error === null}
        loadingText={`Loading ${several}`}
        selectionType={props.selection}
        selectedItems={props.selected}
        onSelectionChange={({ detail }) => props.onSelect?.(detail.selectedItems)}
        ariaLabels={{
          tableLabel: title,
          selectionGroupLabel: `Select ${several}`,
          itemSelectionLabel: (_, item) => `Select ${nameOf(item)}`,
          allItemsSelectionLabel: () => `Select all ${several}`,
        }}
        empty={wanted === "" ? empty : noMatch}
        header={
          <Header
            variant={variant === "full-page" ? "awsui-h1-sticky" : "h2"}
            headingTagOverride={props.headingTag}
            counter={props.items === undefined ? undefined : count}
            description={props.description}
            actions={
              <SpaceBetween direction="horizontal" size="xs">
                <ShowCommand commands={props.commands} />
                {props.refresh !== undefined && (
                  <Button
                    iconName="refresh"
                    ariaLabel={`Refresh ${several}`}
                    loading={props.refreshing}
                    loadingText={`Refreshing ${several}`}
                    onClick={props.refresh}
                  />
                )}
                {props.actions}
              </SpaceBetween>
            }
          >
            {title}
          </Header>
        }
        filter={
          <TextFilter
            filteringText={filtering}
            filteringPlaceholder={`Find ${several}`}
            filteringAriaLabel={`Find ${several}`}
            countText={`${matching.length} ${matching.length === 1 ? "match" : "matches"}`}
            onChange={({ detail }) => setFiltering(detail.filteringText)}
          />
        }
        pagination={
          <Pagination
            {...paginationProps}
            ariaLabels={{
              nextPageLabel: "Next page",
              previousPageLabel: "Previous page",
              pageLabel: (n) => `Page ${n} of all pages`,
            }}
          />
        }
        preferences={
          <CollectionPreferences
            title="Preferences"
            confirmLabel="Confirm"
            cancelLabel="Cancel"
            preferences={preferences}
            onConfirm={({ detail }) => setPreferences(detail)}
            pageSizePreference={{
              title: "Page size",
              options: pageSizes.map((value) => ({ value, label: `${value} ${several}` })),
            }}
            wrapLinesPreference={{ label: "Wrap lines", description: "Show all text of a line." }}
            contentDensityPreference={{ label: "Compact mode", description: "Show more lines at once." }}
            contentDisplayPreference={{
              title: "Column preferences",
              description: `Choose the columns, and their order, for each ${one}.`,
              options: columns.map((c, i) => ({ id: c.id, label: c.header, alwaysVisible: i === 0 })),
            }}
          />
        }
      />
    </SpaceBetween>
  );
}

const definitions = new WeakMap<object, unknown>();

/** DefinitionOf returns the definition of a column for Cloudscape: the same each time, for sorting goes by identity. */
function definitionOf<T>(column: Column<T> | undefined): TableProps.ColumnDefinition<T> {
  if (column === undefined) throw new Error("a table has a column");
  const known = definitions.get(column) as TableProps.ColumnDefinition<T> | undefined;
  if (known !== undefined) return known;
  const definition: TableProps.ColumnDefinition<T> = {
    id: column.id,
    header: column.header,
    cell: (item) => column.cell?.(item) ?? (column.text(item) === "" ? "-" : column.text(item)),
    sortingComparator: column.compare ?? ((a, b) => collator.compare(column.text(a), column.text(b))),
    width: column.width,
    minWidth: 100,
  };
  definitions.set(column, definition);
  return definition;
}

const collator = new Intl.Collator("en-US", { numeric: true });

/** UsePreferences keeps the preferences of a table in the browser. They hold no data of AWS. */
function usePreferences<T>(
  title: string,
  columns: Column<T>[],
): [CollectionPreferencesProps.Preferences, (next: CollectionPreferencesProps.Preferences) => void] {
  const key = `coracle.table.${title}`;
  const [preferences, set] = useState<CollectionPreferencesProps.Preferences>(() => {
    const standard: CollectionPreferencesProps.Preferences = {
      pageSize: 20,
      wrapLines: false,
      contentDensity: "comfortable",
      contentDisplay: columns.map(({ id, hidden }) => ({ id, visible: hidden !== true })),
    };
    try {
      const stored = JSON.parse(localStorage.getItem(key) ?? "{}") as CollectionPreferencesProps.Preferences;
      const known = new Set(stored.contentDisplay?.map(({ id }) => id));
      const complete = known.size === columns.length && columns.every(({ id }) => known.has(id));
      return { ...standard, ...stored, contentDisplay: complete ? stored.contentDisplay : standard.contentDisplay };
    } catch {
      return standard;
    }
  });
  return [
    preferences,
    (next) => {
      localStorage.setItem(key, JSON.stringify(next));
      set(next);
    },
  ];
}

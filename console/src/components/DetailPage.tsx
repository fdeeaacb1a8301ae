import Button from "@cloudscape-design/components/button";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { Command } from "../commands/command";
import { ErrorAlert } from "./ErrorAlert";
import { Loading } from "./Loading";
import { ShowCommand } from "./ShowCommand";

interface Props<T> {
  /** What the page is about: "cluster", "stack". */
  what: string;
  name: string;
  /** The query that reads it, and what the query found; undefined until then. */
  query: Pick<UseQueryResult, "error" | "isFetching" | "refetch">;
  found: T | undefined;
  description?: string;
  commands: Command[];
  /** Buttons, right of the refresh button. */
  actions?: ReactNode;
  children: (found: T) => ReactNode;
}

/** DetailPage is the page of one thing: what is known of it, or why it could not be read. */
export function DetailPage<T>({ what, name, query, found, description, commands, actions, children }: Props<T>) {
  const { error, isFetching } = query;
  const refresh = () => void query.refetch();
  const failure = error !== null && (
    <ErrorAlert attempted={`Describe ${what} ${name}`} error={error} retry={refresh} />
  );
  if (found === undefined) {
    if (error === null) return <Loading what={`${what} ${name}`} />;
    return <ContentLayout header={<Header variant="h1">{name}</Header>}>{failure}</ContentLayout>;
  }
  return (
    <ContentLayout
      header={
        <Header
          variant="h1"
          description={description}
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <ShowCommand commands={commands} />
              <Button
                iconName="refresh"
                ariaLabel={`Refresh ${what}`}
                loading={isFetching}
                loadingText={`Refreshing ${what}`}
                onClick={refresh}
              />
              {actions}
            </SpaceBetween>
          }
        >
          {name}
        </Header>
      }
    >
      <SpaceBetween size="l">
        {failure}
        {children(found)}
      </SpaceBetween>
    </ContentLayout>
  );
}

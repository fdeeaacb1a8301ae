import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import type { ReactNode } from "react";
import type { Command } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { ShowCommand } from "../../components/ShowCommand";

interface Props {
  title: string;
  /** The page that has more of it, if there is one. */
  to?: string;
  commands: Command[];
  error: Error | null;
  loading: boolean;
  retry: () => void;
  children: ReactNode;
}

/** Tile is a part of the home page, with a link to the page that has more, if there is one, and the command. */
export function Tile({ title, to, commands, error, loading, retry, children }: Props) {
  return (
    <Container
      fitHeight
      header={
        <Header variant="h2" actions={<ShowCommand commands={commands} />}>
          {to === undefined ? (
            title
          ) : (
            <AppLink to={to} fontSize="heading-m">
              {title}
            </AppLink>
          )}
        </Header>
      }
    >
      {error !== null && <ErrorAlert attempted={`Read ${title.toLowerCase()}`} error={error} retry={retry} />}
      {loading && error === null ? <Loading what={title.toLowerCase()} /> : children}
    </Container>
  );
}

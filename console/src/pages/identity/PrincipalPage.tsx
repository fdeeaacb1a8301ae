import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs, { type KeyValuePairsProps } from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { ReactNode } from "react";
import { useNavigate } from "react-router";
import type { Command } from "../../commands/command";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { ShowCommand } from "../../components/ShowCommand";
import type { Principal } from "./policies";
import { PolicyList } from "./PolicyList";

interface Props {
  principal: Principal;
  /** Undefined until the principal is read. */
  arn: string | undefined;
  error: Error | null;
  retry: () => void;
  command: Command;
  summary: KeyValuePairsProps.Item[];
  children?: ReactNode;
}

/** PrincipalPage is what the pages of roles and users have in common. */
export function PrincipalPage({ principal, arn, error, retry, command, summary, children }: Props) {
  const navigate = useNavigate();
  const { kind, name } = principal;
  const failure = error !== null && <ErrorAlert attempted={`Get ${kind} ${name}`} error={error} retry={retry} />;
  if (arn === undefined) {
    if (error === null) return <Loading what={`${kind} ${name}`} />;
    return <ContentLayout header={<Header variant="h1">{name}</Header>}>{failure}</ContentLayout>;
  }
  const simulator = `/policy-simulator?principal=${encodeURIComponent(arn)}`;
  return (
    <ContentLayout
      header={
        <Header
          variant="h1"
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <ShowCommand commands={[command]} />
              <Button onClick={() => void navigate(simulator)}>Simulate</Button>
            </SpaceBetween>
          }
        >
          {name}
        </Header>
      }
    >
      <SpaceBetween size="l">
        {failure}
        <Container header={<Header variant="h2">Summary</Header>}>
          <KeyValuePairs columns={3} items={summary} />
        </Container>
        {children}
        <PolicyList principal={principal} />
      </SpaceBetween>
    </ContentLayout>
  );
}

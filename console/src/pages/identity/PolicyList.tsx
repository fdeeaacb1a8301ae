import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { awsCommand, eachInTurn } from "../../commands/command";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { ShowCommand } from "../../components/ShowCommand";
import { formatDocument, type GrantedPolicy, type Principal, usePolicies } from "./policies";

/** Document shows the text of a policy. */
export function Document({ label, text }: { label: string; text: string }) {
  return (
    <pre className="command" tabIndex={0} aria-label={label}>
      {formatDocument(text)}
    </pre>
  );
}

function commandsOf({ kind, name }: Principal) {
  const of = kind === "role" ? { RoleName: name } : { UserName: name };
  const list = ["list-attached-" + kind + "-policies", "list-" + kind + "-policies"];
  if (kind === "user") list.push("list-groups-for-user");
  return eachInTurn(list.map((operation) => awsCommand("iam", operation, of)));
}

/** Describe returns the type of a policy, and the group that it comes from. */
export function describe({ type, group }: GrantedPolicy): string {
  return group === undefined ? type : `${type}, from the group ${group}`;
}

/** PolicyList shows the policies of a role or a user, with their documents. */
export function PolicyList({ principal }: { principal: Principal }) {
  const { data, error, refetch } = usePolicies(principal);
  const header = (
    <Header
      variant="h2"
      counter={data === undefined ? undefined : `(${data.length})`}
      actions={<ShowCommand commands={commandsOf(principal)} />}
    >
      Permissions policies
    </Header>
  );
  return (
    <Container header={header}>
      {error !== null && <ErrorAlert attempted="Read the policies" error={error} retry={() => void refetch()} />}
      {data === undefined && error === null && <Loading what="policies" />}
      {data?.length === 0 && <Box>No policies: the {principal.kind} may do nothing by policies of its own.</Box>}
      <SpaceBetween size="xs">
        {data?.map((policy) => (
          <ExpandableSection
            key={`${policy.sourceId} ${policy.group ?? ""}`}
            headerText={policy.name}
            headerDescription={describe(policy)}
          >
            <Document label={policy.name} text={policy.document} />
          </ExpandableSection>
        ))}
      </SpaceBetween>
    </Container>
  );
}

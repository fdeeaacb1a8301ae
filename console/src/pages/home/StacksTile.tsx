import { CloudFormationClient, paginateDescribeStacks } from "@aws-sdk/client-cloudformation";
import Box from "@cloudscape-design/components/box";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { pollWhile, useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { Status } from "../../components/Status";
import { useSession } from "../../session/SessionProvider";
import { hasFailed, isChanging, stackAddress } from "../cloudformation/stacks";
import { Tile } from "./Tile";

/** StacksTile lists the stacks whose last operation failed. */
export function StacksTile() {
  const { session } = useSession();
  const { data, error, refetch } = useAwsPages(
    CloudFormationClient,
    paginateDescribeStacks,
    {},
    (page) => page.Stacks,
    { poll: pollWhile((stacks) => stacks.some((s) => isChanging(s.StackStatus))) },
  );
  const failed = data?.filter(({ StackStatus }) => hasFailed(StackStatus)) ?? [];
  const query = { query: "Stacks[].[StackName,StackStatus]", output: "text" };
  return (
    <Tile
      title="Stacks in failure"
      to="/stacks"
      commands={[awsCommand("cloudformation", "describe-stacks", query, session.region)]}
      error={error}
      loading={data === undefined}
      retry={() => void refetch()}
    >
      {failed.length === 0 ? (
        <NoFailure count={data?.length ?? 0} />
      ) : (
        <Table
          variant="embedded"
          items={failed}
          ariaLabels={{ tableLabel: "Stacks in failure" }}
          columnDefinitions={[
            {
              id: "name",
              header: "Stack name",
              cell: (s) => <AppLink to={`${stackAddress(s.StackId ?? "")}/events`}>{s.StackName}</AppLink>,
              isRowHeader: true,
            },
            { id: "status", header: "Status", cell: (s) => <Status status={s.StackStatus} raw /> },
          ]}
        />
      )}
    </Tile>
  );
}

function NoFailure({ count }: { count: number }) {
  if (count === 0) return <Box textAlign="center">No stacks</Box>;
  return <StatusIndicator type="success">None of {count}</StatusIndicator>;
}

import Box from "@cloudscape-design/components/box";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import { awsCommand } from "../../commands/command";
import { Status } from "../../components/Status";
import { useSession } from "../../session/SessionProvider";
import { countStates, useInstances } from "../ec2/instances";
import { Tile } from "./Tile";

/** InstancesTile counts the instances of each state. */
export function InstancesTile() {
  const { session } = useSession();
  const { data, error, refetch } = useInstances();
  const query = { query: "Reservations[].Instances[].[InstanceId,State.Name]", output: "text" };
  return (
    <Tile
      title="Instances"
      to="/instances"
      commands={[awsCommand("ec2", "describe-instances", query, session.region)]}
      error={error}
      loading={data === undefined}
      retry={() => void refetch()}
    >
      {data?.length === 0 ? (
        <Box textAlign="center">No instances</Box>
      ) : (
        <KeyValuePairs
          columns={3}
          items={countStates(data ?? []).map(([state, count]) => ({
            type: "pair",
            label: <Status status={state} />,
            value: <Box variant="awsui-value-large">{count}</Box>,
          }))}
        />
      )}
    </Tile>
  );
}

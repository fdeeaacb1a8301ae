import { CloudFormationClient, paginateDescribeStacks, type Stack } from "@aws-sdk/client-cloudformation";
import Button from "@cloudscape-design/components/button";
import { useState } from "react";
import { pollWhile, useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { Status } from "../../components/Status";
import { Time } from "../../components/Time";
import { useSession } from "../../session/SessionProvider";
import { DeleteStack } from "./DeleteStack";
import { isChanging, stackAddress } from "./stacks";

const idOf = (stack: Stack) => stack.StackId ?? "";
const nameOf = (stack: Stack) => stack.StackName ?? "";

const columns: Column<Stack>[] = [
  {
    id: "name",
    header: "Stack name",
    text: nameOf,
    cell: (s) => <AppLink to={stackAddress(idOf(s))}>{nameOf(s)}</AppLink>,
    width: 300,
  },
  {
    id: "status",
    header: "Status",
    text: (s) => s.StackStatus ?? "",
    cell: (s) => <Status status={s.StackStatus} raw />,
    width: 260,
  },
  {
    id: "created",
    header: "Created time",
    text: (s) => s.CreationTime?.toISOString() ?? "",
    cell: (s) => <Time at={s.CreationTime} />,
    width: 160,
  },
  {
    id: "updated",
    header: "Updated time",
    text: (s) => s.LastUpdatedTime?.toISOString() ?? "",
    cell: (s) => <Time at={s.LastUpdatedTime} />,
    width: 160,
  },
  { id: "description", header: "Description", text: (s) => s.Description ?? "", width: 420 },
  { id: "id", header: "Stack ID", text: idOf, hidden: true, width: 420 },
];

/** StacksPage lists the stacks of the region. */
export default function StacksPage() {
  const { session } = useSession();
  const { data, error, refetch, isFetching } = useAwsPages(
    CloudFormationClient,
    paginateDescribeStacks,
    {},
    (page) => page.Stacks,
    { poll: pollWhile((stacks) => stacks.some((s) => isChanging(s.StackStatus))) },
  );
  const [selected, setSelected] = useState<Stack[]>([]);
  const [deleting, setDeleting] = useState<string>();
  const [first] = selected;
  return (
    <>
      <ResourceTable
        variant="full-page"
        title="Stacks"
        nouns={["stack", "stacks"]}
        items={data}
        columns={columns}
        keyOf={idOf}
        nameOf={nameOf}
        error={error}
        refresh={() => void refetch()}
        refreshing={isFetching}
        commands={[awsCommand("cloudformation", "describe-stacks", {}, session.region)]}
        selection="single"
        selected={selected}
        onSelect={setSelected}
        actions={
          <Button
            disabled={first === undefined}
            onClick={() => setDeleting(first === undefined ? undefined : idOf(first))}
          >
            Delete
          </Button>
        }
      />
      {deleting !== undefined && <DeleteStack id={deleting} onDismiss={() => setDeleting(undefined)} />}
    </>
  );
}

import { CloudFormationClient, paginateDescribeStacks, type Stack } from "@aws-sdk/client-cloudformation";
import { pollWhile, useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { ListPage } from "../../components/ListPage";
import type { Column } from "../../components/ResourceTable";
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
  const query = useAwsPages(CloudFormationClient, paginateDescribeStacks, {}, (page) => page.Stacks, {
    poll: pollWhile((stacks) => stacks.some((s) => isChanging(s.StackStatus))),
  });
  return (
    <ListPage
      title="Stacks"
      nouns={["stack", "stacks"]}
      query={query}
      columns={columns}
      keyOf={idOf}
      nameOf={nameOf}
      commands={[awsCommand("cloudformation", "describe-stacks", {}, session.region)]}
      deletion={(stack, onDismiss) => <DeleteStack id={idOf(stack)} onDismiss={onDismiss} />}
    />
  );
}

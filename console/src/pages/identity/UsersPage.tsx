import { IAMClient, paginateListUsers, type User } from "@aws-sdk/client-iam";
import { useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { Time } from "../../components/Time";
import { principalAddress } from "./policies";

const nameOf = (user: User) => user.UserName ?? "";

const columns: Column<User>[] = [
  {
    id: "name",
    header: "User name",
    text: nameOf,
    cell: (u) => <AppLink to={principalAddress({ kind: "user", name: nameOf(u) })}>{nameOf(u)}</AppLink>,
    width: 320,
  },
  { id: "path", header: "Path", text: (u) => u.Path ?? "", width: 160 },
  {
    id: "created",
    header: "Created",
    text: (u) => u.CreateDate?.toISOString() ?? "",
    cell: (u) => <Time at={u.CreateDate} />,
    width: 160,
  },
  { id: "arn", header: "ARN", text: (u) => u.Arn ?? "", width: 420 },
];

/** UsersPage lists the users of the account. */
export default function UsersPage() {
  const { data, error, refetch, isFetching } = useAwsPages(IAMClient, paginateListUsers, {}, (page) => page.Users);
  return (
    <ResourceTable
      variant="full-page"
      title="Users"
      nouns={["user", "users"]}
      items={data}
      columns={columns}
      keyOf={(u) => u.Arn ?? ""}
      nameOf={nameOf}
      error={error}
      refresh={() => void refetch()}
      refreshing={isFetching}
      commands={[awsCommand("iam", "list-users", {})]}
    />
  );
}

import { IAMClient, paginateListRoles, type Role } from "@aws-sdk/client-iam";
import { useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { Time } from "../../components/Time";
import { decodeDocument, principalAddress, trustedEntities } from "./policies";

const nameOf = (role: Role) => role.RoleName ?? "";

const columns: Column<Role>[] = [
  {
    id: "name",
    header: "Role name",
    text: nameOf,
    cell: (r) => <AppLink to={principalAddress({ kind: "role", name: nameOf(r) })}>{nameOf(r)}</AppLink>,
    width: 320,
  },
  {
    id: "trusted",
    header: "Trusted entities",
    text: (r) => trustedEntities(decodeDocument(r.AssumeRolePolicyDocument)).join(", "),
    width: 440,
  },
  {
    id: "created",
    header: "Created",
    text: (r) => r.CreateDate?.toISOString() ?? "",
    cell: (r) => <Time at={r.CreateDate} />,
    width: 160,
  },
  { id: "path", header: "Path", text: (r) => r.Path ?? "", width: 160 },
  { id: "arn", header: "ARN", text: (r) => r.Arn ?? "", hidden: true, width: 420 },
];

/** RolesPage lists the roles of the account. */
export default function RolesPage() {
  const { data, error, refetch, isFetching } = useAwsPages(IAMClient, paginateListRoles, {}, (page) => page.Roles);
  return (
    <ResourceTable
      variant="full-page"
      title="Roles"
      nouns={["role", "roles"]}
      items={data}
      columns={columns}
      keyOf={(r) => r.Arn ?? ""}
      nameOf={nameOf}
      error={error}
      refresh={() => void refetch()}
      refreshing={isFetching}
      commands={[awsCommand("iam", "list-roles", {})]}
    />
  );
}

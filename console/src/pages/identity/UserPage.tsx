import { GetUserCommand, IAMClient } from "@aws-sdk/client-iam";
import { useParams } from "react-router";
import { useAws } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { Copyable } from "../../components/Copyable";
import { Time } from "../../components/Time";
import { PrincipalPage } from "./PrincipalPage";

/** UserPage shows a user and its policies. */
export default function UserPage() {
  const { name = "" } = useParams();
  const { data, error, refetch } = useAws(IAMClient, GetUserCommand, { UserName: name });
  const user = data?.User;
  return (
    <PrincipalPage
      principal={{ kind: "user", name }}
      arn={user?.Arn}
      error={error}
      retry={() => void refetch()}
      command={awsCommand("iam", "get-user", { UserName: name })}
      summary={[
        { label: "ARN", value: <Copyable text={user?.Arn} what="ARN" /> },
        { label: "Created", value: <Time at={user?.CreateDate} /> },
        { label: "Permissions boundary", value: user?.PermissionsBoundary?.PermissionsBoundaryArn ?? "-" },
      ]}
    />
  );
}

import { GetRoleCommand, IAMClient } from "@aws-sdk/client-iam";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import { useParams } from "react-router";
import { useAws } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { Copyable } from "../../components/Copyable";
import { Time } from "../../components/Time";
import { Document } from "./PolicyList";
import { decodeDocument } from "./policies";
import { PrincipalPage } from "./PrincipalPage";

/** RolePage shows a role: who may assume it, and its policies. */
export default function RolePage() {
  const { name = "" } = useParams();
  const { data, error, refetch } = useAws(IAMClient, GetRoleCommand, { RoleName: name });
  const role = data?.Role;
  return (
    <PrincipalPage
      principal={{ kind: "role", name }}
      arn={role?.Arn}
      error={error}
      retry={() => void refetch()}
      command={awsCommand("iam", "get-role", { RoleName: name })}
      summary={[
        { label: "ARN", value: <Copyable text={role?.Arn} what="ARN" /> },
        { label: "Created", value: <Time at={role?.CreateDate} /> },
        { label: "Maximum session duration", value: `${(role?.MaxSessionDuration ?? 0) / 3600} hours` },
        { label: "Description", value: role?.Description ?? "-" },
        { label: "Permissions boundary", value: role?.PermissionsBoundary?.PermissionsBoundaryArn ?? "-" },
      ]}
    >
      <Container header={<Header variant="h2">Trusted entities</Header>}>
        <Document label="Trust policy" text={decodeDocument(role?.AssumeRolePolicyDocument)} />
      </Container>
    </PrincipalPage>
  );
}

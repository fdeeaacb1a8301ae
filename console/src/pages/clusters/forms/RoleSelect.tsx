import { IAMClient, paginateListAttachedRolePolicies, paginateListRoles } from "@aws-sdk/client-iam";
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import FormField from "@cloudscape-design/components/form-field";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { ReactNode } from "react";
import { useAwsPages } from "../../../aws/queries";
import { awsCommand } from "../../../commands/command";
import { describeError } from "../../../aws/errors";
import { missingPolicies, roleName, trusts } from "./roles";

interface Props {
  label: string;
  description: ReactNode;
  /** The service that assumes the role: only roles that trust it are offered. */
  service: string;
  /** The AWS managed policies that the role needs. Of each, one of the names suffices. */
  needs: string[][];
  /** The ARN of the chosen role; empty for none. */
  value: string;
  errorText?: string;
  onChange: (arn: string) => void;
}

/** RoleSelect offers the roles of the account that a service may assume, and says what the chosen one lacks. */
export function RoleSelect({ label, description, service, needs, value, errorText, onChange }: Props) {
  const roles = useAwsPages(IAMClient, paginateListRoles, {}, (page) => page.Roles);
  const offered = (roles.data ?? []).filter(
    ({ Path, AssumeRolePolicyDocument }) =>
      Path?.startsWith("/aws-service-role/") !== true && trusts(AssumeRolePolicyDocument, service),
  );
  return (
    <SpaceBetween size="s">
      <FormField label={label} description={description} errorText={errorText}>
        <Select
          filteringType="auto"
          placeholder="Select role"
          statusType={roles.error !== null ? "error" : roles.isPending ? "loading" : "finished"}
          loadingText="Loading roles"
          errorText={roles.error === null ? undefined : describeError(roles.error).message}
          empty={`No role trusts ${service}. Create one in IAM first.`}
          selectedOption={value === "" ? null : { value, label: roleName(value) }}
          options={offered.map(({ Arn, RoleName }) => ({ value: Arn, label: RoleName }))}
          onChange={({ detail }) => onChange(detail.selectedOption.value ?? "")}
        />
      </FormField>
      {value !== "" && <Missing arn={value} needs={needs} />}
    </SpaceBetween>
  );
}

/** Missing warns of the policies that a role lacks. Policies of other names may allow the same. */
function Missing({ arn, needs }: { arn: string; needs: string[][] }) {
  const RoleName = roleName(arn);
  const attached = useAwsPages(
    IAMClient,
    paginateListAttachedRolePolicies,
    { RoleName },
    (page) => page.AttachedPolicies,
  );
  if (attached.data === undefined) return null;
  const missing = missingPolicies(
    needs,
    attached.data.map(({ PolicyName = "" }) => PolicyName),
  );
  if (missing.length === 0) return null;
  return (
    <Alert type="warning" header={`The role ${RoleName} lacks managed policies`}>
      <SpaceBetween size="xs">
        <div>Unless other policies of it allow the same, attach them:</div>
        {missing.map((name) => (
          <Box key={name} variant="code">
            {awsCommand("iam", "attach-role-policy", { RoleName, PolicyArn: `arn:aws:iam::aws:policy/${name}` }).text}
          </Box>
        ))}
      </SpaceBetween>
    </Alert>
  );
}

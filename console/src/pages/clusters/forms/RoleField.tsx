import { IAMClient, paginateListRoles, type Role } from "@aws-sdk/client-iam";
import Autosuggest from "@cloudscape-design/components/autosuggest";
import FormField from "@cloudscape-design/components/form-field";
import type { ReactNode } from "react";
import { useAwsPages } from "../../../aws/queries";
import { decodeDocument, trustedEntities } from "../../identity/policies";

interface Props {
  label: ReactNode;
  description?: ReactNode;
  constraintText?: ReactNode;
  errorText?: string;
  /** The ARN of the role; empty for none. */
  value: string;
  /** Which roles are suggested, by who may assume them. Others can be typed. */
  trusts?: (entities: string[]) => boolean;
  /** What is said where no role is suggested: "No role trusts pods.eks.amazonaws.com." */
  empty: string;
  onChange: (arn: string) => void;
}

const suggest = (role: Role) => ({ value: role.Arn ?? "", description: role.Description });

/** RoleField takes the ARN of a role, and suggests those of the account. */
export function RoleField({ value, trusts = () => true, empty, onChange, ...field }: Props) {
  const { data = [], error, isLoading } = useAwsPages(IAMClient, paginateListRoles, {}, (page) => page.Roles);
  const options = data.filter((r) => trusts(trustedEntities(decodeDocument(r.AssumeRolePolicyDocument)))).map(suggest);
  return (
    <FormField {...field}>
      <Autosuggest
        value={value}
        options={options}
        placeholder="Choose a role, or enter its ARN"
        empty={empty}
        enteredTextLabel={(text) => `Use: "${text}"`}
        statusType={isLoading ? "loading" : error === null ? "finished" : "error"}
        loadingText="Loading roles"
        errorText={error?.message}
        onChange={({ detail }) => onChange(detail.value)}
      />
    </FormField>
  );
}

/** TrustsPods reports whether EKS Pod Identity may assume a role, by the entities that it trusts. */
export const trustsPods = (entities: string[]) => entities.includes("pods.eks.amazonaws.com");

/** TrustsIssuer reports whether service accounts may assume a role by their tokens. */
export const trustsIssuer = (entities: string[]) => entities.some((entity) => entity.includes(":oidc-provider/"));

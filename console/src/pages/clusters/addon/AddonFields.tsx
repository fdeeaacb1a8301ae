import type { AddonInfo } from "@aws-sdk/client-eks";
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import RadioGroup from "@cloudscape-design/components/radio-group";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Textarea from "@cloudscape-design/components/textarea";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { RoleField, trustsIssuer, trustsPods } from "../forms/RoleField";
import { TagFields } from "../forms/TagFields";
import { useAddonConfiguration } from "./addons";
import { type Form, type Problems, resolutions } from "./request";
import { formatSchema, problemsOf as problemsOfValues } from "./schema";

interface Props {
  form: Form;
  /** What there is of the add-on for the cluster's version of Kubernetes. */
  info: AddonInfo;
  /** The version that is installed, where one is. */
  installed?: string;
  change: (next: Partial<Form>) => void;
  problems: Problems;
}

/** AddonFields are the fields of the form of an add-on, which creates or updates it. */
export function AddonFields({ form, info, installed, change, problems }: Props) {
  const kind = installed === undefined ? "create" : "update";
  const versions = info.addonVersions ?? [];
  const version = versions.find(({ addonVersion }) => addonVersion === form.version);
  const configuration = useAddonConfiguration(form.name, form.version);
  const accounts = configuration.data?.podIdentityConfiguration ?? [];
  const schema = configuration.data?.configurationSchema;
  const wrong = problemsOfValues(form.configurationValues, schema);
  const tagOf = (is: boolean | undefined, text: string) => (is === true ? [text] : []);
  return (
    <Container header={<Header variant="h2">{form.name}</Header>}>
      <SpaceBetween size="l">
        <FormField
          label="Version"
          description="Select the version for this add-on."
          errorText={problems.version}
          constraintText={version?.computeTypes && `Compute types: ${version.computeTypes.join(", ")}`}
        >
          <Select
            selectedOption={form.version === "" ? null : { value: form.version, label: form.version }}
            placeholder="Choose a version"
            options={versions.map(({ addonVersion = "", compatibilities = [], requiresConfiguration }) => ({
              value: addonVersion,
              label: addonVersion,
              tags: [
                ...tagOf(compatibilities.some((c) => c.defaultVersion), "Default"),
                ...tagOf(addonVersion === installed, "Installed"),
                ...tagOf(requiresConfiguration, "Requires configuration"),
              ],
            }))}
            onChange={({ detail }) => change({ version: detail.selectedOption.value ?? "" })}
          />
        </FormField>
        {(version?.requiresIamPermissions === true || accounts.length > 0 || form.access !== "none") && (
          <AccessFields form={form} accounts={accounts.map((a) => a.serviceAccount ?? "")} {...{ change, problems }}>
            {accounts.flatMap((a) => a.recommendedManagedPolicies ?? [])}
          </AccessFields>
        )}
        {kind === "create" && (
          <FormField
            label="Namespace"
            description="The namespace that the add-on is installed in, unless it is the default one."
            errorText={problems.namespace}
          >
            <Input
              value={form.namespace}
              placeholder={info.defaultNamespace}
              onChange={({ detail }) => change({ namespace: detail.value })}
            />
          </FormField>
        )}
        <ExpandableSection
          headerText="Optional configuration settings"
          defaultExpanded={kind === "update" || version?.requiresConfiguration === true}
        >
          <SpaceBetween size="l">
            {configuration.error !== null && (
              <ErrorAlert attempted="Read the configuration schema" error={configuration.error} />
            )}
            <ExpandableSection headerText="Add-on configuration schema">
              <pre className="command" tabIndex={0} aria-label={`Configuration schema of ${form.name}`}>
                {formatSchema(schema ?? "")}
              </pre>
            </ExpandableSection>
            <FormField
              label="Configuration values"
              description="A JSON or YAML document, which the configuration schema describes."
              errorText={wrong.length > 0 && wrong.map((problem) => <div key={problem}>{problem}</div>)}
              stretch
            >
              <Textarea
                value={form.configurationValues}
                rows={Math.min(24, Math.max(6, form.configurationValues.split("\n").length + 1))}
                spellcheck={false}
                placeholder='{"replicaCount": 2}'
                onChange={({ detail }) => change({ configurationValues: detail.value })}
              />
            </FormField>
            <FormField
              label="Conflict resolution method"
              description={
                kind === "create"
                  ? "What happens where the cluster has the add-on already, self-managed, with other values."
                  : "What happens where you have changed a value from the Amazon EKS default value."
              }
            >
              <RadioGroup
                value={form.resolveConflicts}
                items={resolutions[kind].map(({ value, label, text }) => ({ value, label, description: text }))}
                onChange={({ detail }) => change({ resolveConflicts: detail.value as Form["resolveConflicts"] })}
              />
            </FormField>
            {form.resolveConflicts === "OVERWRITE" && (
              <Alert type="warning">
                Values that you set with kubectl or other tools are lost where the add-on sets the same fields.
              </Alert>
            )}
            {kind === "create" && (
              <FormField label="Tags" stretch>
                <TagFields tags={form.tags} onChange={(tags) => change({ tags })} />
              </FormField>
            )}
          </SpaceBetween>
        </ExpandableSection>
      </SpaceBetween>
    </Container>
  );
}

interface AccessProps extends Pick<Props, "form" | "change" | "problems"> {
  /** The service accounts that may have pod identity associations. */
  accounts: string[];
  /** The policies that EKS recommends for their roles. */
  children: string[];
}

/** AccessFields choose how an add-on gets permissions of IAM. */
function AccessFields({ form, accounts, change, problems, children: policies }: AccessProps) {
  const recommended = policies.map((arn) => arn.slice(arn.lastIndexOf("/") + 1)).join(", ");
  return (
    <SpaceBetween size="m">
      <FormField
        label="Add-on access"
        description="How the add-on gets IAM permissions."
        constraintText={recommended === "" ? undefined : `Recommended policies: ${recommended}`}
      >
        <RadioGroup
          value={form.access}
          items={[
            {
              value: "pod-identity",
              label: "EKS Pod Identity",
              description: "Use a Pod Identity IAM role for the add-on’s service account.",
              disabled: accounts.length === 0,
            },
            {
              value: "irsa",
              label: "IAM roles for service accounts (IRSA)",
              description: "Use the OpenID Connect provider of the cluster.",
            },
            { value: "none", label: "None", description: "Use the IAM role of the node where the add-on runs." },
          ]}
          onChange={({ detail }) => change({ access: detail.value as Form["access"] })}
        />
      </FormField>
      {form.access === "pod-identity" &&
        accounts.map((account) => (
          <RoleField
            key={account}
            label={
              <>
                Pod Identity IAM role for service account <Box variant="code">{account}</Box>
              </>
            }
            errorText={problems.podRoles}
            empty="No role trusts pods.eks.amazonaws.com."
            trusts={trustsPods}
            value={form.podRoles[account] ?? ""}
            onChange={(arn) => change({ podRoles: { ...form.podRoles, [account]: arn } })}
          />
        ))}
      {form.access === "irsa" && (
        <RoleField
          label="IAM role for service account (IRSA)"
          errorText={problems.serviceAccountRoleArn}
          empty="No role trusts an OpenID Connect provider."
          trusts={trustsIssuer}
          value={form.serviceAccountRoleArn}
          onChange={(arn) => change({ serviceAccountRoleArn: arn })}
        />
      )}
    </SpaceBetween>
  );
}

import Checkbox from "@cloudscape-design/components/checkbox";
import Autosuggest from "@cloudscape-design/components/autosuggest";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Textarea from "@cloudscape-design/components/textarea";
import { RoleField, trustsPods } from "../forms/RoleField";
import { core, namespaces } from "../../../kubernetes/objects";
import { useWatch } from "../../../kubernetes/watch";
import type { AssociationForm, associationProblems } from "./request";

interface Props {
  clusterName: string;
  form: AssociationForm;
  change: (next: Partial<AssociationForm>) => void;
  problems: ReturnType<typeof associationProblems>;
  /** The service account is given: it cannot be changed. */
  fixed?: boolean;
}

const serviceAccounts = core("serviceaccounts");

/** AssociationFields are the fields of the form of a pod identity association. */
export function AssociationFields({ clusterName, form, change, problems, fixed = false }: Props) {
  return (
    <SpaceBetween size="m">
      <RoleField
        label="IAM role"
        description="The role that pods of the service account have. It trusts pods.eks.amazonaws.com."
        empty="No role trusts pods.eks.amazonaws.com."
        trusts={trustsPods}
        value={form.roleArn}
        errorText={problems.roleArn}
        onChange={(roleArn) => change({ roleArn })}
      />
      {!fixed && <AccountFields {...{ clusterName, form, change, problems }} />}
      <FormField
        label="Target IAM role"
        description="A role that the first assumes, such as one of another account. Optional."
        errorText={problems.targetRoleArn}
      >
        <Input value={form.targetRoleArn} onChange={({ detail }) => change({ targetRoleArn: detail.value })} />
      </FormField>
      <Checkbox
        checked={form.disableSessionTags}
        description="EKS tags sessions of pods with the cluster, namespace, service account and pod, unless disabled."
        onChange={({ detail }) => change({ disableSessionTags: detail.checked })}
      >
        Disable session tags
      </Checkbox>
      <FormField
        label="Session policy"
        description="An IAM policy that the permissions of the role are limited to. Optional."
        errorText={problems.policy}
        stretch
      >
        <Textarea
          rows={4}
          value={form.policy}
          spellcheck={false}
          onChange={({ detail }) => change({ policy: detail.value })}
        />
      </FormField>
    </SpaceBetween>
  );
}

/** AccountFields choose a service account, and suggest those of the cluster, as far as the reader may list them. */
function AccountFields({ clusterName, form, change, problems }: Omit<Props, "fixed">) {
  const inNamespace = form.namespace === "" ? undefined : form.namespace;
  const spaces = useWatch(clusterName, namespaces);
  const accounts = useWatch(clusterName, serviceAccounts);
  const suggested = accounts.items.filter(({ metadata }) => metadata.namespace === inNamespace);
  const options = (items: typeof accounts.items) =>
    items.map(({ metadata: { name } }) => ({ value: name })).sort((a, b) => a.value.localeCompare(b.value));
  const texts = { enteredTextLabel: (text: string) => `Use: "${text}"`, empty: "None is listed: enter one." };
  return (
    <>
      <FormField label="Kubernetes namespace" errorText={problems.namespace}>
        <Autosuggest
          {...texts}
          value={form.namespace}
          options={options(spaces.items)}
          placeholder="Choose a namespace, or enter one"
          onChange={({ detail }) => change({ namespace: detail.value })}
        />
      </FormField>
      <FormField
        label="Kubernetes service account"
        description="It may be created later."
        errorText={problems.serviceAccount}
      >
        <Autosuggest
          {...texts}
          value={form.serviceAccount}
          options={options(suggested)}
          placeholder="Choose a service account, or enter one"
          onChange={({ detail }) => change({ serviceAccount: detail.value })}
        />
      </FormField>
    </>
  );
}

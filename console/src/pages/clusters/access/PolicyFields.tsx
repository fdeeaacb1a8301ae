import { EKSClient, paginateListAccessPolicies } from "@aws-sdk/client-eks";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import RadioGroup from "@cloudscape-design/components/radio-group";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { useAwsPages } from "../../../aws/queries";
import { splitWords } from "../../identity/policies";
import type { Policy } from "./request";

interface Props {
  policy: Policy;
  errorText?: string;
  /** The policy is given: its scope alone is chosen. */
  fixed?: boolean;
  change: (next: Partial<Policy>) => void;
}

/** PolicyFields choose an access policy and its scope. */
export function PolicyFields({ policy, errorText, fixed = false, change }: Props) {
  const { data = [], error } = useAwsPages(EKSClient, paginateListAccessPolicies, {}, (page) => page.accessPolicies, {
    poll: false,
  });
  const [namespaces, setNamespaces] = useState(policy.namespaces.join(", "));
  return (
    <SpaceBetween size="m">
      <FormField label="Policy name" errorText={errorText ?? error?.message}>
        <Select
          filteringType="auto"
          placeholder="Choose a policy"
          disabled={fixed}
          selectedOption={policy.policyArn === "" ? null : { value: policy.policyArn, label: nameOf(policy.policyArn) }}
          options={data.map(({ name, arn }) => ({ value: arn, label: name }))}
          onChange={({ detail }) => change({ policyArn: detail.selectedOption.value ?? "" })}
        />
      </FormField>
      <FormField label="Access scope" description="Where the policy applies.">
        <RadioGroup
          value={policy.scope}
          items={[
            { value: "cluster", label: "Cluster", description: "All namespaces, and resources of the cluster." },
            { value: "namespace", label: "Kubernetes namespace", description: "Chosen namespaces only." },
          ]}
          onChange={({ detail }) => change({ scope: detail.value as Policy["scope"] })}
        />
      </FormField>
      {policy.scope === "namespace" && (
        <FormField
          label="Namespaces"
          constraintText="Names, separated by commas. An asterisk at the end stands for any: web-*"
        >
          <Input
            value={namespaces}
            placeholder="default, web-*"
            onChange={({ detail }) => {
              setNamespaces(detail.value);
              change({ namespaces: splitWords(detail.value) });
            }}
          />
        </FormField>
      )}
    </SpaceBetween>
  );
}

/** NameOf returns the name of an access policy: "AmazonEKSViewPolicy". */
export const nameOf = (policyArn: string) => policyArn.slice(policyArn.lastIndexOf("/") + 1);

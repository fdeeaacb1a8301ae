import { DescribeKeyPairsCommand, EC2Client, paginateDescribeSecurityGroups } from "@aws-sdk/client-ec2";
import Checkbox from "@cloudscape-design/components/checkbox";
import Container from "@cloudscape-design/components/container";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Multiselect from "@cloudscape-design/components/multiselect";
import RadioGroup from "@cloudscape-design/components/radio-group";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useAws, useAwsPages } from "../../../aws/queries";
import type { Problems } from "../forms/problems";
import { SubnetSelect } from "../forms/SubnetSelect";
import type { Place } from "../forms/subnets";
import type { Form } from "./form";

interface Props {
  vpcId: string;
  places: Place[] | undefined;
  form: Form;
  problems: Problems<Form>;
  change: (next: Partial<Form>) => void;
}

/** NetworkFields asks for the subnets of nodes, and for who may log in to them. */
export function NetworkFields({ vpcId, places, form, problems, change }: Props) {
  return (
    <Container
      header={
        <Header variant="h2" description="These properties cannot be changed after the node group is created.">
          Node group network configuration
        </Header>
      }
    >
      <SpaceBetween size="m">
        <SubnetSelect
          description="Specify the subnets in your VPC where your nodes will run."
          places={places}
          value={form.subnetIds}
          errorText={problems.subnetIds}
          onChange={(subnetIds) => change({ subnetIds })}
        />
        {!form.useTemplate && (
          <Checkbox
            checked={form.remoteAccess}
            description="People with the key log in to nodes by SSH."
            onChange={({ detail }) => change({ remoteAccess: detail.checked })}
          >
            Configure remote access to nodes
          </Checkbox>
        )}
        {form.remoteAccess && !form.useTemplate && (
          <RemoteAccess vpcId={vpcId} form={form} problems={problems} change={change} />
        )}
      </SpaceBetween>
    </Container>
  );
}

function RemoteAccess({ vpcId, form, problems, change }: Omit<Props, "places">) {
  const keys = useAws(EC2Client, DescribeKeyPairsCommand, {});
  const groups = useAwsPages(
    EC2Client,
    paginateDescribeSecurityGroups,
    { Filters: [{ Name: "vpc-id", Values: [vpcId] }] },
    (page) => page.SecurityGroups,
  );
  return (
    <SpaceBetween size="m">
      <FormField label="EC2 Key Pair" errorText={problems.keyPair}>
        <Select
          filteringType="auto"
          placeholder="Select key pair"
          empty="No key pairs. Create one with: aws ec2 create-key-pair"
          statusType={keys.isPending ? "loading" : "finished"}
          options={(keys.data?.KeyPairs ?? []).map(({ KeyName }) => ({ value: KeyName, label: KeyName }))}
          selectedOption={form.keyPair === "" ? null : { value: form.keyPair, label: form.keyPair }}
          onChange={({ detail }) => change({ keyPair: detail.selectedOption.value ?? "" })}
        />
      </FormField>
      <FormField label="Allow remote access from">
        <RadioGroup
          value={form.sources}
          items={[
            { value: "selected", label: "Selected security groups" },
            { value: "all", label: "All", description: "Port 22 of the nodes is open to all addresses." },
          ]}
          onChange={({ detail }) => change({ sources: detail.value as Form["sources"] })}
        />
      </FormField>
      {form.sources === "selected" && (
        <FormField label="Security groups" errorText={problems.sourceGroups}>
          <Multiselect
            filteringType="auto"
            placeholder="Select security groups"
            empty="No security groups"
            options={(groups.data ?? []).map(({ GroupId, GroupName }) => ({
              value: GroupId,
              label: GroupId,
              description: GroupName,
            }))}
            selectedOptions={form.sourceGroups.map((value) => ({ value, label: value }))}
            deselectAriaLabel={({ label = "" }) => `Remove ${label}`}
            onChange={({ detail }) => change({ sourceGroups: detail.selectedOptions.map(({ value = "" }) => value) })}
          />
        </FormField>
      )}
    </SpaceBetween>
  );
}

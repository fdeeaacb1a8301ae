import { EC2Client, paginateDescribeSecurityGroups, paginateDescribeSubnets } from "@aws-sdk/client-ec2";
import { CreateClusterCommand, EKSClient } from "@aws-sdk/client-eks";
import Checkbox from "@cloudscape-design/components/checkbox";
import Container from "@cloudscape-design/components/container";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import Multiselect from "@cloudscape-design/components/multiselect";
import RadioGroup from "@cloudscape-design/components/radio-group";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Textarea from "@cloudscape-design/components/textarea";
import { useState } from "react";
import { useNavigate } from "react-router";
import { useAwsChange, useAwsPages } from "../../../aws/queries";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { useSession } from "../../../session/SessionProvider";
import { useVersions } from "../clusters";
import { FormPage } from "../forms/FormPage";
import { RoleSelect } from "../forms/RoleSelect";
import { SubnetSelect } from "../forms/SubnetSelect";
import { placeOf } from "../forms/subnets";
import { LogTypeToggles } from "../logTypes";
import { commandsOf, emptyForm, type Form, problemsOf, requestOf } from "./request";

/** CreateClusterPage creates a cluster, with the settings of AWS's console. */
export default function CreateClusterPage() {
  const { session } = useSession();
  const navigate = useNavigate();
  const [form, setForm] = useState<Form>(emptyForm);
  const [submitted, setSubmitted] = useState(false);
  const versions = [...useVersions().values()].filter(({ versionStatus }) => versionStatus !== "UNSUPPORTED");
  const subnets = useAwsPages(EC2Client, paginateDescribeSubnets, {}, (page) => page.Subnets);
  const groups = useAwsPages(EC2Client, paginateDescribeSecurityGroups, {}, (page) => page.SecurityGroups);
  const create = useAwsChange(EKSClient, CreateClusterCommand, {
    attempt: (input) => `Create cluster ${input.name ?? ""}`,
    success: (input) => `Cluster ${input.name ?? ""} is being created.`,
    quiet: true,
  });
  const change = (next: Partial<Form>) => setForm((before) => ({ ...before, ...next }));
  const problems = submitted ? problemsOf(form) : {};
  const defaultVersion = versions.find((v) => v.defaultVersion === true)?.clusterVersion ?? "";
  const complete = { ...form, version: form.version === "" ? defaultVersion : form.version };
  const zones = new Map(subnets.data?.map((s) => [s.SubnetId ?? "", s.AvailabilityZone ?? ""]));
  const vpc = subnets.data?.find(({ SubnetId }) => SubnetId === form.subnetIds[0])?.VpcId;
  const submit = () => {
    setSubmitted(true);
    if (Object.keys(problemsOf(complete)).length > 0) return;
    create.mutate(requestOf(complete), {
      onSuccess: () => void navigate(`/clusters/${encodeURIComponent(complete.name)}`),
    });
  };
  const failed = subnets.error ?? groups.error;

  return (
    <FormPage
      title="Create cluster"
      submitText="Create"
      cancelTo="/clusters"
      attempted={`Create cluster ${form.name}`}
      error={create.error}
      pending={create.isPending}
      commands={commandsOf(complete, session.region, zones)}
      onSubmit={submit}
    >
      {failed !== null && <ErrorAlert attempted="Read subnets and security groups" error={failed} />}
      <Container header={<Header variant="h2">Cluster configuration</Header>}>
        <SpaceBetween size="m">
          <FormField label="Name" errorText={problems.name}>
            <Input value={form.name} autoFocus onChange={({ detail }) => change({ name: detail.value })} />
          </FormField>
          <RoleSelect
            label="Cluster IAM role"
            description="Select a role that EKS may assume."
            service="eks.amazonaws.com"
            needs={[["AmazonEKSClusterPolicy"]]}
            value={form.roleArn}
            errorText={problems.roleArn}
            onChange={(roleArn) => change({ roleArn })}
          />
          <FormField label="Kubernetes version" errorText={problems.version}>
            <Select
              placeholder="Choose a version"
              selectedOption={
                complete.version === "" ? null : { value: complete.version, label: complete.version }
              }
              options={versions.map((v) => ({
                value: v.clusterVersion,
                label: v.clusterVersion,
                description: v.versionStatus === "EXTENDED_SUPPORT" ? "Extended support" : "Standard support",
              }))}
              onChange={({ detail }) => change({ version: detail.selectedOption.value ?? "" })}
            />
          </FormField>
          <Checkbox
            checked={form.deletionProtection}
            description="The cluster cannot be deleted as long as this is on."
            onChange={({ detail }) => change({ deletionProtection: detail.checked })}
          >
            Deletion protection
          </Checkbox>
        </SpaceBetween>
      </Container>
      <Container header={<Header variant="h2">Cluster access</Header>}>
        <SpaceBetween size="m">
          <Checkbox
            checked={form.creatorIsAdmin}
            onChange={({ detail }) => change({ creatorIsAdmin: detail.checked })}
          >
            Allow cluster administrator access for whoever creates the cluster
          </Checkbox>
          <FormField label="Cluster authentication mode">
            <RadioGroup
              value={form.authenticationMode}
              items={[
                { value: "API", label: "EKS API" },
                { value: "API_AND_CONFIG_MAP", label: "EKS API and ConfigMap" },
              ]}
              onChange={({ detail }) =>
                change({ authenticationMode: detail.value as Form["authenticationMode"] })
              }
            />
          </FormField>
        </SpaceBetween>
      </Container>
      <Container header={<Header variant="h2">Networking</Header>}>
        <SpaceBetween size="m">
          <SubnetSelect
            description="EKS places network interfaces of the control plane in them."
            places={subnets.data?.map((subnet) => placeOf(subnet))}
            withVpc
            value={form.subnetIds}
            errorText={problems.subnetIds}
            onChange={(subnetIds) => change({ subnetIds })}
          />
          <FormField label="Additional security groups">
            <Multiselect
              filteringType="auto"
              placeholder="Choose security groups"
              empty="Choose subnets first."
              options={(groups.data ?? [])
                .filter(({ VpcId }) => VpcId === vpc)
                .map(({ GroupId, GroupName }) => ({ value: GroupId, label: GroupId, description: GroupName }))}
              selectedOptions={form.securityGroupIds.map((value) => ({ value, label: value }))}
              deselectAriaLabel={({ label = "" }) => `Remove ${label}`}
              onChange={({ detail }) =>
                change({ securityGroupIds: detail.selectedOptions.map(({ value = "" }) => value) })
              }
            />
          </FormField>
          <FormField label="Cluster endpoint access" errorText={problems.publicAccess}>
            <SpaceBetween size="xs">
              <Checkbox
                checked={form.publicAccess}
                onChange={({ detail }) => change({ publicAccess: detail.checked })}
              >
                Public
              </Checkbox>
              <Checkbox
                checked={form.privateAccess}
                onChange={({ detail }) => change({ privateAccess: detail.checked })}
              >
                Private
              </Checkbox>
            </SpaceBetween>
          </FormField>
          {form.publicAccess && (
            <FormField
              label="Sources of public access"
              description="CIDR blocks, one a line."
              errorText={problems.publicAccessCidrs}
            >
              <Textarea
                rows={2}
                value={form.publicAccessCidrs.join("\n")}
                onChange={({ detail }) => change({ publicAccessCidrs: detail.value.split("\n") })}
              />
            </FormField>
          )}
        </SpaceBetween>
      </Container>
      <Container header={<Header variant="h2">Observability</Header>}>
        <FormField label="Control plane logs" description="Sent to CloudWatch Logs.">
          <LogTypeToggles chosen={form.logTypes} onChange={(logTypes) => change({ logTypes })} />
        </FormField>
      </Container>
    </FormPage>
  );
}

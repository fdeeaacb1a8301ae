import { type Cluster, CreateNodegroupCommand, EKSClient } from "@aws-sdk/client-eks";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { useNavigate, useParams } from "react-router";
import { useAwsChange } from "../../../aws/queries";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { Loading } from "../../../components/Loading";
import { useSession } from "../../../session/SessionProvider";
import { computeAddress, nodegroupAddress } from "../addresses";
import { useCluster } from "../clusters";
import { CreateWizard, type Step } from "../forms/CreateWizard";
import { eksctlVpcOf } from "../forms/eksctl";
import { TagsSection } from "../forms/TagsSection";
import { RoleSelect } from "../forms/RoleSelect";
import { usePlaces } from "../forms/subnets";
import { ComputeFields } from "./ComputeFields";
import { emptyForm, type Form, noTemplate, problemsOf, subjects, templateOf } from "./form";
import { NetworkFields } from "./NetworkFields";
import { useTemplateVersions } from "./nodegroups";
import { createCommandsOf, createRequestOf } from "./request";
import { reviewOf } from "./review";
import { LabelFields, RepairFields, ScalingFields, TaintFields, UpdateFields } from "./SettingsFields";
import { TemplateFields } from "./TemplateFields";

/** The policies that a node role needs. https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html */
const needs = [
  ["AmazonEKSWorkerNodePolicy", "AmazonEKSWorkerNodeMinimalPolicy"],
  ["AmazonEC2ContainerRegistryPullOnly", "AmazonEC2ContainerRegistryReadOnly", "AmazonEC2ContainerRegistryPowerUser"],
  ["AmazonEKS_CNI_Policy"],
];

/** CreateNodegroupPage creates a managed node group, with the steps of AWS's console. */
export default function CreateNodegroupPage() {
  const { cluster: name = "" } = useParams();
  const { data, error, refetch } = useCluster(name);
  if (data?.cluster !== undefined) return <CreateNodegroup cluster={data.cluster} name={name} />;
  if (error === null) return <Loading what={`cluster ${name}`} />;
  return (
    <ContentLayout header={<Header variant="h1">Create node group</Header>}>
      <ErrorAlert attempted={`Describe cluster ${name}`} error={error} retry={() => void refetch()} />
    </ContentLayout>
  );
}

function CreateNodegroup({ cluster, name }: { cluster: Cluster; name: string }) {
  const { session } = useSession();
  const navigate = useNavigate();
  const [form, setForm] = useState<Form>(() => ({
    ...emptyForm,
    subnetIds: cluster.resourcesVpcConfig?.subnetIds ?? [],
  }));
  const create = useAwsChange(EKSClient, CreateNodegroupCommand, {
    attempt: (input) => `Create node group ${input.nodegroupName ?? ""}`,
    success: (input) => `Node group ${input.nodegroupName ?? ""} is being created.`,
    quiet: true,
  });
  const vpcId = cluster.resourcesVpcConfig?.vpcId ?? "";
  const { places, error } = usePlaces(vpcId);
  const { versions } = useTemplateVersions(form.useTemplate ? form.templateId : undefined);
  const version = versions?.find(({ VersionNumber }) => String(VersionNumber) === form.templateVersion);
  const template = form.useTemplate ? templateOf(version?.LaunchTemplateData) : noTemplate;
  const change = (next: Partial<Form>) => {
    if (create.isError) create.reset();
    setForm((before) => ({ ...before, ...next }));
  };
  const used = places?.filter(({ id }) => form.subnetIds.includes(id));
  const review = reviewOf(form, template);

  const steps: Step<Form>[] = [
    {
      title: "Configure node group",
      description: "A node group is a group of EC2 instances that supply compute capacity to your Amazon EKS cluster.",
      fields: ["name", "roleArn", "templateId", "templateVersion", "labels", "taints", "tags"],
      review: review.configuration,
      content: (problems) => (
        <SpaceBetween size="l">
          <Container
            header={
              <Header variant="h2" description="These properties cannot be changed after the node group is created.">
                Node group configuration
              </Header>
            }
          >
            <SpaceBetween size="m">
              <FormField
                label="Name"
                description="Assign a unique name for this node group."
                errorText={problems.name}
              >
                <Input value={form.name} onChange={({ detail }) => change({ name: detail.value })} />
              </FormField>
              <RoleSelect
                label="Node IAM role"
                description="Select the IAM role that will be used by the nodes: one that EC2 may assume."
                service="ec2.amazonaws.com"
                needs={needs}
                value={form.roleArn}
                errorText={problems.roleArn}
                onChange={(roleArn) => change({ roleArn })}
              />
            </SpaceBetween>
          </Container>
          <TemplateFields form={form} problems={problems} change={change} />
          <LabelFields form={form} problems={problems} change={change} />
          <TaintFields form={form} problems={problems} change={change} />
          <TagsSection
            what="node group"
            tags={form.tags}
            errorText={problems.tags}
            onChange={(tags) => change({ tags })}
          />
        </SpaceBetween>
      ),
    },
    {
      title: "Set compute and scaling configuration",
      fields: [
        "amiType",
        "capacityType",
        "instanceTypes",
        "diskSize",
        "desiredSize",
        "minSize",
        "maxSize",
        "unavailable",
        "updateStrategy",
        "repair",
        "unhealthy",
        "parallel",
      ],
      review: review.compute,
      content: (problems) => (
        <SpaceBetween size="l">
          <ComputeFields form={form} template={template} problems={problems} change={change} />
          <ScalingFields form={form} problems={problems} change={change} />
          <UpdateFields form={form} problems={problems} change={change} />
          <RepairFields form={form} problems={problems} change={change} />
        </SpaceBetween>
      ),
    },
    {
      title: "Specify networking",
      fields: ["subnetIds", "remoteAccess", "keyPair", "sources", "sourceGroups"],
      review: review.network,
      content: (problems) => (
        <SpaceBetween size="l">
          {error !== null && <ErrorAlert attempted="List subnets and route tables" error={error} />}
          <NetworkFields vpcId={vpcId} places={places} form={form} problems={problems} change={change} />
        </SpaceBetween>
      ),
    },
  ];
  return (
    <CreateWizard
      steps={steps}
      problems={problemsOf(form, template)}
      attempted={`Create node group ${form.name}`}
      error={create.error}
      subjects={subjects}
      commands={createCommandsOf(form, cluster, template, session.region, used && eksctlVpcOf(cluster, used))}
      pending={create.isPending}
      onCancel={() => void navigate(computeAddress(name))}
      onSubmit={async () => {
        await create.mutateAsync(createRequestOf(form, name, template));
        void navigate(nodegroupAddress(name, form.name));
      }}
    />
  );
}

import { type Cluster, CreateFargateProfileCommand, EKSClient } from "@aws-sdk/client-eks";
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
import { computeAddress, profileAddress } from "../addresses";
import { useCluster } from "../clusters";
import { CreateWizard, type Step } from "../forms/CreateWizard";
import { eksctlVpcOf } from "../forms/eksctl";
import { TagsSection } from "../forms/TagsSection";
import { roleName } from "../forms/roles";
import { RoleSelect } from "../forms/RoleSelect";
import { usePlaces } from "../forms/subnets";
import { SubnetSelect } from "../forms/SubnetSelect";
import { formatPairs } from "../nodegroup/review";
import { commandsOf, emptyForm, type Form, formatSelector, problemsOf, requestOf, subjects } from "./form";
import { SelectorFields } from "./SelectorFields";

/** CreateFargateProfilePage creates a Fargate profile, with the steps of AWS's console. */
export default function CreateFargateProfilePage() {
  const { cluster: name = "" } = useParams();
  const { data, error, refetch } = useCluster(name);
  if (data?.cluster !== undefined) return <CreateFargateProfile cluster={data.cluster} name={name} />;
  if (error === null) return <Loading what={`cluster ${name}`} />;
  return (
    <ContentLayout header={<Header variant="h1">Create Fargate profile</Header>}>
      <ErrorAlert attempted={`Describe cluster ${name}`} error={error} retry={() => void refetch()} />
    </ContentLayout>
  );
}

function CreateFargateProfile({ cluster, name }: { cluster: Cluster; name: string }) {
  const { session } = useSession();
  const navigate = useNavigate();
  const [form, setForm] = useState<Form>(emptyForm);
  const { places, error } = usePlaces(cluster.resourcesVpcConfig?.vpcId);
  const privatePlaces = places?.filter(({ isPublic }) => isPublic === false);
  const ofCluster = privatePlaces?.filter(({ id }) => cluster.resourcesVpcConfig?.subnetIds?.includes(id) === true);
  const subnetIds = form.subnetIds ?? ofCluster?.map(({ id }) => id) ?? [];
  const create = useAwsChange(EKSClient, CreateFargateProfileCommand, {
    attempt: (input) => `Create Fargate profile ${input.fargateProfileName ?? ""}`,
    success: (input) => `Fargate profile ${input.fargateProfileName ?? ""} is being created.`,
    quiet: true,
  });
  const change = (next: Partial<Form>) => {
    if (create.isError) create.reset();
    setForm((before) => ({ ...before, ...next }));
  };
  const used = privatePlaces?.filter(({ id }) => subnetIds.includes(id));

  const steps: Step<Form>[] = [
    {
      title: "Configure Fargate profile",
      description: "A Fargate profile says which pods run on AWS Fargate, without nodes of yours.",
      fields: ["name", "roleArn", "subnetIds", "tags"],
      review: [
        {
          title: "Profile configuration",
          items: [
            { label: "Name", value: form.name },
            { label: "Pod execution role", value: roleName(form.roleArn) },
            { label: "Subnets", value: subnetIds.join(", ") },
            { label: "Tags", value: formatPairs(form.tags) },
          ],
        },
      ],
      content: (problems) => (
        <SpaceBetween size="l">
          {error !== null && <ErrorAlert attempted="List subnets and route tables" error={error} />}
          <Container
            header={
              <Header variant="h2" description="These properties cannot be changed after the profile is created.">
                Profile configuration
              </Header>
            }
          >
            <SpaceBetween size="m">
              <FormField
                label="Name"
                description="Assign a unique name for this Fargate profile."
                errorText={problems.name}
              >
                <Input value={form.name} onChange={({ detail }) => change({ name: detail.value })} />
              </FormField>
              <RoleSelect
                label="Pod execution role"
                description="Select the IAM role that Fargate pods will use. It must not be the role of nodes."
                service="eks-fargate-pods.amazonaws.com"
                needs={[["AmazonEKSFargatePodExecutionRolePolicy"]]}
                value={form.roleArn}
                errorText={problems.roleArn}
                onChange={(roleArn) => change({ roleArn })}
              />
              <SubnetSelect
                description="Select the subnets of your VPC where pods will run. Only private subnets are supported."
                places={privatePlaces}
                value={subnetIds}
                empty="The VPC of the cluster has no private subnets: each has a route to an internet gateway."
                errorText={problems.subnetIds}
                onChange={(ids) => change({ subnetIds: ids })}
              />
            </SpaceBetween>
          </Container>
          <TagsSection
            what="Fargate profile"
            tags={form.tags}
            errorText={problems.tags}
            onChange={(tags) => change({ tags })}
          />
        </SpaceBetween>
      ),
    },
    {
      title: "Configure pod selection",
      fields: ["selectors"],
      review: [
        {
          title: "Pod selectors",
          items: form.selectors.map(({ namespace, labels }, i) => ({
            label: `Pod selector ${i + 1}`,
            value: formatSelector(namespace, labels),
          })),
        },
      ],
      content: (problems) => (
        <SelectorFields
          selectors={form.selectors}
          errorText={problems.selectors}
          onChange={(selectors) => change({ selectors })}
        />
      ),
    },
  ];
  return (
    <CreateWizard
      steps={steps}
      problems={problemsOf(form, subnetIds)}
      attempted={`Create Fargate profile ${form.name}`}
      error={create.error}
      subjects={subjects}
      commands={commandsOf(form, cluster, subnetIds, session.region, used && eksctlVpcOf(cluster, used))}
      pending={create.isPending}
      onCancel={() => void navigate(computeAddress(name))}
      onSubmit={async () => {
        await create.mutateAsync(requestOf(form, name, subnetIds));
        void navigate(profileAddress(name, form.name));
      }}
    />
  );
}

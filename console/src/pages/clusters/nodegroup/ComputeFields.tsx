import { EC2Client, type InstanceTypeInfo, paginateDescribeInstanceTypes } from "@aws-sdk/client-ec2";
import type { CapacityTypes } from "@aws-sdk/client-eks";
import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import Multiselect from "@cloudscape-design/components/multiselect";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useAwsPages } from "../../../aws/queries";
import type { Problems } from "../forms/problems";
import { amiTypeOf, amiTypes, defaultInstanceType } from "./amiTypes";
import { type Form, formatCapacity, type Template } from "./form";

interface Props {
  form: Form;
  template: Template;
  problems: Problems<Form>;
  change: (next: Partial<Form>) => void;
}

const capacities = (["ON_DEMAND", "SPOT"] as const).map((value) => ({ value, label: formatCapacity(value) }));

/** DescribeType returns what AWS's console says of an instance type. */
function describeType({ VCpuInfo, MemoryInfo, NetworkInfo }: InstanceTypeInfo): string {
  const addresses = (NetworkInfo?.MaximumNetworkInterfaces ?? 0) * (NetworkInfo?.Ipv4AddressesPerInterface ?? 0);
  return [
    `vCPU: ${VCpuInfo?.DefaultVCpus ?? "-"} vCPUs`,
    `Memory: ${(MemoryInfo?.SizeInMiB ?? 0) / 1024} GiB`,
    `Network: ${NetworkInfo?.NetworkPerformance ?? "-"}`,
    `Max ENI: ${NetworkInfo?.MaximumNetworkInterfaces ?? "-"}`,
    `Max IPs: ${addresses}`,
  ].join(" | ");
}

/** ComputeFields asks what the nodes of a group are. */
export function ComputeFields({ form, template, problems, change }: Props) {
  const ami = amiTypeOf(form.amiType);
  const types = useAwsPages(
    EC2Client,
    paginateDescribeInstanceTypes,
    template.image || ami === undefined
      ? {}
      : { Filters: [{ Name: "processor-info.supported-architecture", Values: [ami.architecture] }] },
    (page) => page.InstanceTypes,
    { poll: false },
  );
  const offered = (types.data ?? []).filter(
    ({ GpuInfo }) =>
      template.image || ami?.nvidia !== true || GpuInfo?.Gpus?.some(({ Manufacturer }) => Manufacturer === "NVIDIA"),
  );
  const inTemplate = <Box color="text-body-secondary">Specified in launch template</Box>;
  return (
    <Container
      header={
        <Header variant="h2" description="These properties cannot be changed after the node group is created.">
          Node group compute configuration
        </Header>
      }
    >
      <SpaceBetween size="m">
        <FormField
          label="AMI type"
          description="Select the EKS-optimized Amazon Machine Image for nodes."
          errorText={problems.amiType}
        >
          {template.image ? (
            inTemplate
          ) : (
            <Select
              options={amiTypes.map(({ type, label }) => ({ value: type, label }))}
              selectedOption={{ value: form.amiType, label: ami?.label ?? form.amiType }}
              onChange={({ detail }) => {
                const next = amiTypeOf(detail.selectedOption.value);
                if (next === undefined) return;
                const fits = next.architecture === ami?.architecture && next.nvidia === ami.nvidia;
                change({
                  amiType: next.type,
                  instanceTypes: fits ? form.instanceTypes : [defaultInstanceType(next)],
                });
              }}
            />
          )}
        </FormField>
        <FormField
          label="Capacity type"
          description="Select the capacity purchase option for this node group."
          errorText={problems.capacityType}
        >
          <Select
            options={capacities}
            selectedOption={capacities.find(({ value }) => value === form.capacityType) ?? null}
            onChange={({ detail }) => change({ capacityType: detail.selectedOption.value as CapacityTypes })}
          />
        </FormField>
        <FormField
          label="Instance types"
          description="Select instance types you prefer for this node group."
          errorText={problems.instanceTypes}
        >
          {template.instanceType ? (
            inTemplate
          ) : (
            <Multiselect
              filteringType="auto"
              placeholder="Select instance types"
              statusType={types.isPending ? "loading" : "finished"}
              loadingText="Loading instance types"
              empty="No instance types"
              virtualScroll
              options={offered.map((type) => ({
                value: type.InstanceType,
                label: type.InstanceType,
                description: describeType(type),
              }))}
              selectedOptions={form.instanceTypes.map((value) => {
                const type = types.data?.find(({ InstanceType }) => InstanceType === value);
                return { value, label: value, description: type && describeType(type) };
              })}
              deselectAriaLabel={({ label = "" }) => `Remove ${label}`}
              onChange={({ detail }) =>
                change({ instanceTypes: detail.selectedOptions.map(({ value = "" }) => value) })
              }
            />
          )}
        </FormField>
        <FormField
          label="Disk size"
          description="Select the size of the attached EBS volume for each node."
          secondaryControl={form.useTemplate ? undefined : <Box padding={{ top: "xxs" }}>GiB</Box>}
          errorText={problems.diskSize}
        >
          {form.useTemplate ? (
            inTemplate
          ) : (
            <Input
              type="number"
              inputMode="numeric"
              step={1}
              value={form.diskSize}
              onChange={({ detail }) => change({ diskSize: detail.value })}
            />
          )}
        </FormField>
      </SpaceBetween>
    </Container>
  );
}

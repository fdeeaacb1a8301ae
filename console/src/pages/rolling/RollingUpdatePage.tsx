import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";
import Steps from "@cloudscape-design/components/steps";
import type { Nodegroup, Update } from "@aws-sdk/client-eks";
import { useParams, useSearchParams } from "react-router";
import { awsCommand, type Command, eachInTurn, kubectlCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { Copyable } from "../../components/Copyable";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { ShowCommand } from "../../components/ShowCommand";
import { Status } from "../../components/Status";
import { Time } from "../../components/Time";
import { formatTime } from "../../components/time";
import { pods } from "../../kubernetes/objects";
import { useSession } from "../../session/SessionProvider";
import { objectAddress } from "../resources/address";
import type { Blocker } from "./budgets";
import { budgets } from "./objects";
import { Nodes } from "./Nodes";
import type { Step } from "./rolling";
import { Happenings, Workloads } from "./Tables";
import { type RollingUpdate, useRollingUpdate } from "./useRollingUpdate";

/** RollingUpdatePage shows the update of a node group to another version, as it happens. */
export default function RollingUpdatePage() {
  const { cluster = "", nodegroup: name = "" } = useParams();
  const [parameters, setParameters] = useSearchParams();
  const rolling = useRollingUpdate(cluster, name, parameters.get("update") ?? undefined);
  const { update, updates = [], errors, loading } = rolling;
  const { session } = useSession();
  const commands = commandsOf(cluster, name, rolling, session.region);
  if (loading && errors.length === 0) return <Loading what="update" />;
  const options = updates.map(({ id = "", createdAt, status }) => ({
    value: id,
    label: createdAt === undefined ? id : formatTime(createdAt),
    description: status,
  }));
  return (
    <ContentLayout
      header={
        <Header
          variant="h1"
          description="What EKS replaces node by node, and what keeps it from going on."
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              {options.length > 1 && (
                <Select
                  ariaLabel="Update"
                  selectedOption={options.find(({ value }) => value === update?.id) ?? null}
                  options={options}
                  onChange={({ detail }) => setParameters({ update: detail.selectedOption.value ?? "" })}
                />
              )}
              <ShowCommand commands={commands} />
            </SpaceBetween>
          }
        >
          Update of node group {name}
        </Header>
      }
    >
      <SpaceBetween size="l">
        {errors.map(({ attempted, error, retry }) => (
          <ErrorAlert key={attempted} attempted={attempted} error={error} retry={retry} />
        ))}
        {update === undefined ? (
          !loading && <Alert header="No version updates">The node group has not been updated to another version.</Alert>
        ) : (
          <Summary update={update} nodegroup={rolling.nodegroup} steps={rolling.steps} />
        )}
        {update?.errors?.map(({ errorCode, errorMessage = "", resourceIds = [] }, i) => (
          <Alert key={i} type="error" header={`The update failed: ${errorCode ?? ""}`}>
            {errorMessage}
            {resourceIds.length > 0 && <Box variant="p">Resources: {resourceIds.join(", ")}</Box>}
          </Alert>
        ))}
        {rolling.nodegroup?.health?.issues?.map(({ code, message = "", resourceIds = [] }, i) => (
          <Alert key={i} type="warning" header={`Health issue: ${code ?? ""}`}>
            {message}
            {resourceIds.length > 0 && <Box variant="p">Resources: {resourceIds.join(", ")}</Box>}
          </Alert>
        ))}
        {update !== undefined && !rolling.isLast ? (
          <Alert>A later update has replaced these nodes. What is left of this one are the activities below.</Alert>
        ) : (
          <SpaceBetween size="l">
            {rolling.blockers.map((blocker) => (
              <BlockerAlert key={blocker.key} cluster={cluster} blocker={blocker} />
            ))}
            <Nodes cluster={cluster} members={rolling.members} blockers={rolling.blockers} />
            <Workloads cluster={cluster} workloads={rolling.workloads} />
          </SpaceBetween>
        )}
        <Happenings happenings={rolling.happenings} commands={commands} />
      </SpaceBetween>
    </ContentLayout>
  );
}

const stepStatus: Record<Step["status"], [StatusIndicatorProps.Type, string]> = {
  done: ["success", "Done"],
  current: ["in-progress", "In progress"],
  pending: ["pending", "Not begun"],
  skipped: ["stopped", "Left out"],
  failed: ["error", "Failed"],
};

interface SummaryProps {
  update: Update;
  nodegroup?: Nodegroup;
  steps: Step[];
}

function Summary({ update, nodegroup, steps }: SummaryProps) {
  const parameter = (name: string) => update.params?.find(({ type }) => type === name)?.value;
  const { maxUnavailable, maxUnavailablePercentage, updateStrategy = "DEFAULT" } = nodegroup?.updateConfig ?? {};
  const { minSize, maxSize, desiredSize } = nodegroup?.scalingConfig ?? {};
  const to = [parameter("Version"), parameter("ReleaseVersion"), parameter("LaunchTemplateVersion")];
  return (
    <Container header={<Header variant="h2">Update</Header>}>
      <SpaceBetween size="l">
        <KeyValuePairs
          columns={4}
          items={[
            { label: "Status", value: <Status status={update.status} /> },
            { label: "Update ID", value: <Copyable text={update.id} what="Update ID" /> },
            { label: "Submitted", value: <Time at={update.createdAt} /> },
            { label: "To version", value: to.filter(Boolean).join(", ") || "-" },
            { label: "Update strategy", value: updateStrategy === "MINIMAL" ? "Minimal" : "Default" },
            {
              label: "Maximum unavailable",
              value: maxUnavailablePercentage !== undefined ? `${maxUnavailablePercentage}%` : (maxUnavailable ?? "-"),
            },
            { label: "Desired size", value: desiredSize ?? "-" },
            { label: "Minimum to maximum", value: `${minSize ?? "-"} to ${maxSize ?? "-"}` },
          ]}
        />
        <Steps
          ariaLabel="Phases of the update"
          steps={steps.map(({ phase, status, details }) => ({
            header: phase,
            details: details === "" ? undefined : <Box color="text-body-secondary">{details}</Box>,
            status: stepStatus[status][0],
            statusIconAriaLabel: stepStatus[status][1],
          }))}
        />
      </SpaceBetween>
    </Container>
  );
}

function BlockerAlert({ cluster, blocker }: { cluster: string; blocker: Blocker }) {
  const { namespace, names, pods: blocked, why, lasting } = blocker;
  const shown = blocked.slice(0, 10);
  return (
    <Alert
      type={lasting ? "warning" : "info"}
      header={`${names.length > 1 ? "PodDisruptionBudgets" : "PodDisruptionBudget"} ${namespace}/${names.join(", ")} ${
        lasting ? "blocks evictions" : "holds back evictions"
      }`}
    >
      <SpaceBetween size="xs">
        <div>{why}</div>
        <div>
          Pods that stay until then:{" "}
          {shown.map((pod, i) => (
            <span key={pod.uid}>
              {i > 0 && ", "}
              <AppLink to={objectAddress(cluster, pods, pod)}>{pod.name}</AppLink> on {pod.node}
            </span>
          ))}
          {blocked.length > shown.length && `, and ${blocked.length - shown.length} more`}
        </div>
        <div>
          {names.map((name) => (
            <AppLink key={name} to={objectAddress(cluster, budgets, { namespace, name })}>
              See budget {name}
            </AppLink>
          ))}
        </div>
      </SpaceBetween>
    </Alert>
  );
}

function commandsOf(cluster: string, nodegroupName: string, of: RollingUpdate, region: string): Command[] {
  const eks = (operation: string, input: object) => awsCommand("eks", operation, input, region);
  const autoscaling = (operation: string, input: object) => awsCommand("autoscaling", operation, input, region);
  const group = of.group?.AutoScalingGroupName;
  const updateId = of.update?.id;
  const aws = [
    eks("list-updates", { name: cluster, nodegroupName }),
    ...(updateId === undefined ? [] : [eks("describe-update", { name: cluster, nodegroupName, updateId })]),
    eks("describe-nodegroup", { clusterName: cluster, nodegroupName }),
    ...(group === undefined
      ? []
      : [
          autoscaling("describe-auto-scaling-groups", { AutoScalingGroupNames: [group] }),
          autoscaling("describe-scaling-activities", { AutoScalingGroupName: group }),
        ]),
  ];
  const kubectl = [
    kubectlCommand(cluster, "get", "nodes", "-o", "wide", "--watch"),
    kubectlCommand(cluster, "get", "pods", "-A", "-o", "wide", "--watch"),
    kubectlCommand(cluster, "get", "poddisruptionbudgets", "-A", "--watch"),
    kubectlCommand(cluster, "get", "events", "-A", "--field-selector", "involvedObject.kind=Node", "--watch"),
  ];
  return [...eachInTurn(aws), ...eachInTurn(kubectl)];
}

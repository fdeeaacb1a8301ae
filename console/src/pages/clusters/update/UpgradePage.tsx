import { EKSClient, UpdateClusterVersionCommand } from "@aws-sdk/client-eks";
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Checkbox from "@cloudscape-design/components/checkbox";
import Container from "@cloudscape-design/components/container";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import Link from "@cloudscape-design/components/link";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { useState } from "react";
import { useNavigate, useParams } from "react-router";
import { useAwsChange } from "../../../aws/queries";
import { awsCommand } from "../../../commands/command";
import { eksctlCommand } from "../../../commands/eksctl";
import { AppLink } from "../../../components/AppLink";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { Loading } from "../../../components/Loading";
import { Status } from "../../../components/Status";
import { useSession } from "../../../session/SessionProvider";
import { supportPeriod, useCluster, useVersions } from "../clusters";
import { FormPage } from "../forms/FormPage";
import { nextVersion } from "./request";
import { clusterTemplate } from "./template";
import { Insight, useUpgradeInsights } from "./UpgradeInsights";

/** UpgradePage upgrades a control plane to the next minor version of Kubernetes. */
export default function UpgradePage() {
  const { cluster: name = "" } = useParams();
  const { session } = useSession();
  const navigate = useNavigate();
  const { data, error } = useCluster(name);
  const versions = useVersions();
  const cluster = data?.cluster;
  const next = nextVersion(cluster?.version);
  const insights = useUpgradeInsights(name, next);
  const [open, setOpen] = useState<string>();
  const [typed, setTyped] = useState("");
  const [force, setForce] = useState(false);
  const [submitted, setSubmitted] = useState(false);
  const upgrade = useAwsChange(EKSClient, UpdateClusterVersionCommand, {
    attempt: () => `Upgrade cluster ${name}`,
    success: (input) => `Cluster ${name} is being upgraded to version ${input.version ?? ""}.`,
    quiet: true,
  });
  if (cluster === undefined || versions.size === 0) {
    if (error === null) return <Loading what={`cluster ${name}`} />;
    return <ErrorAlert attempted={`Describe cluster ${name}`} error={error} />;
  }
  const page = `/clusters/${encodeURIComponent(name)}`;
  const served = versions.get(next);
  const blocking = insights.data?.filter(({ insightStatus }) => insightStatus?.status === "ERROR") ?? [];
  const input = { name, version: next, force: force ? true : undefined };
  const submit = () => {
    setSubmitted(true);
    if (typed === name && served !== undefined) upgrade.mutate(input, { onSuccess: () => void navigate(page) });
  };
  return (
    <FormPage
      title={`Upgrade version of ${name}`}
      submitText="Upgrade"
      cancelTo={page}
      attempted={`Upgrade cluster ${name}`}
      error={upgrade.error}
      pending={upgrade.isPending}
      commands={[
        awsCommand("eks", "update-cluster-version", input, session.region),
        eksctlCommand("upgrade cluster", { name, version: next, approve: true }, session.region),
        clusterTemplate({ ...cluster, version: next }),
      ]}
      onSubmit={submit}
    >
      <Container header={<Header variant="h2">Kubernetes version</Header>}>
        <SpaceBetween size="m">
          <KeyValuePairs
            columns={2}
            items={[
              { label: "Current version", value: cluster.version ?? "-" },
              { label: "Support period", value: supportPeriod(versions.get(cluster.version ?? "")) },
            ]}
          />
          {served === undefined ? (
            <Alert type="info">There is no later version than {cluster.version}.</Alert>
          ) : (
            <FormField
              label="New version"
              description={supportPeriod(served)}
              constraintText="A control plane is upgraded one minor version at a time."
            >
              <Select
                selectedOption={{ value: next, label: next }}
                options={[{ value: next, label: next, description: supportPeriod(served) }]}
              />
            </FormField>
          )}
          <Alert type="warning" header="Before you upgrade">
            <ul>
              <li>
                The API server is replaced: it may not answer for moments. Pods go on running. The subnets of the
                cluster need up to five available IP addresses.
              </li>
              <li>
                Amazon EKS doesn’t upgrade your nodes and add-ons with the control plane. Upgrade node groups and
                Fargate pods that are too old first, and all of them, and the add-ons, afterwards.
              </li>
              <li>
                Review the changes and removed APIs of the version, and test your workloads with it. Within seven days,
                the upgrade can be rolled back.
              </li>
            </ul>
          </Alert>
        </SpaceBetween>
      </Container>
      <Container
        header={
          <Header
            variant="h2"
            counter={insights.data && `(${insights.data.length})`}
            description={<AppLink to={`${page}/observability`}>Check again on the Observability tab</AppLink>}
          >
            Upgrade insights
          </Header>
        }
      >
        {insights.error !== null && <ErrorAlert attempted="List insights" error={insights.error} />}
        <Table
          variant="embedded"
          wrapLines
          items={insights.data ?? []}
          loading={insights.data === undefined && insights.error === null}
          loadingText="Loading insights"
          empty={<Box textAlign="center">No insights</Box>}
          ariaLabels={{ tableLabel: "Upgrade insights" }}
          columnDefinitions={[
            {
              id: "name",
              header: "Name",
              isRowHeader: true,
              cell: (i) => <Link onFollow={() => setOpen(i.id)}>{i.name}</Link>,
            },
            { id: "status", header: "Insight status", cell: (i) => <Status status={i.insightStatus?.status} /> },
            { id: "reason", header: "Reason", cell: (i) => i.insightStatus?.reason ?? "-" },
          ]}
        />
        {open !== undefined && <Insight clusterName={name} id={open} onDismiss={() => setOpen(undefined)} />}
      </Container>
      <Container header={<Header variant="h2">Confirm upgrade</Header>}>
        <SpaceBetween size="m">
          {blocking.length > 0 && (
            <>
              <Alert type="error" header="Insights block the upgrade">
                {blocking.map((i) => i.name).join(", ")}: resolve what they report, or override them.
              </Alert>
              <Checkbox
                checked={force}
                description="Upgrade although insights have the status Error."
                onChange={({ detail }) => setForce(detail.checked)}
              >
                Override upgrade-blocking readiness checks
              </Checkbox>
            </>
          )}
          <FormField
            label={
              <>
                To confirm the upgrade, type <i>{name}</i> in the field.
              </>
            }
            errorText={submitted && typed !== name ? "Type the name of the cluster." : undefined}
          >
            <Input value={typed} placeholder={name} onChange={({ detail }) => setTyped(detail.value)} />
          </FormField>
        </SpaceBetween>
      </Container>
    </FormPage>
  );
}

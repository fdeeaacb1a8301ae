import Container from "@cloudscape-design/components/container";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import FormField from "@cloudscape-design/components/form-field";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useMemo } from "react";
import { useSearchParams } from "react-router";
import { kubectlCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { ErrorAlert } from "../../components/ErrorAlert";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { Time } from "../../components/Time";
import { type KubernetesObject, namespaces } from "../../kubernetes/objects";
import { useWatch } from "../../kubernetes/watch";
import type { TabProps } from "../clusters/tab";
import { type Kind, resourceName, useKinds } from "./discovery";
import { objectAddress } from "./address";
import { isSettled, statusOf } from "./status";

const all = "All namespaces";

/** ResourcesTab lists the objects of a cluster, of all kinds that its API server serves. */
export default function ResourcesTab({ name }: TabProps) {
  const kinds = useKinds(name);
  const [parameters, setParameters] = useSearchParams();
  const wanted = parameters.get("resource") ?? "pods";
  const namespace = parameters.get("namespace") ?? "";
  const kind = kinds.data?.find((k) => resourceName(k) === wanted);
  const found = useWatch<KubernetesObject>(name, namespaces);
  const change = (key: string, value: string) =>
    setParameters((before) => {
      const next = new URLSearchParams(before);
      if (value === "") next.delete(key);
      else next.set(key, value);
      return next;
    });
  const options = (kinds.data ?? []).map((k) => ({ value: resourceName(k), label: k.kind, description: groupOf(k) }));
  const names = found.items.map(({ metadata }) => metadata.name).sort();
  return (
    <SpaceBetween size="l">
      {kinds.error !== null && (
        <ErrorAlert
          attempted="Discover the kinds of the cluster"
          error={kinds.error}
          retry={() => void kinds.refetch()}
        />
      )}
      <Container>
        <ColumnLayout columns={2}>
          <FormField label="Resource type">
            <Select
              filteringType="auto"
              statusType={kinds.isPending ? "loading" : "finished"}
              loadingText="Loading resource types"
              placeholder="Choose a resource type"
              selectedOption={options.find(({ value }) => value === wanted) ?? null}
              options={options}
              onChange={({ detail }) => change("resource", detail.selectedOption.value ?? "")}
            />
          </FormField>
          <FormField label="Namespace">
            <Select
              filteringType="auto"
              disabled={kind?.namespaced === false}
              selectedOption={{ value: namespace, label: namespace === "" ? all : namespace }}
              options={[{ value: "", label: all }, ...names.map((value) => ({ value, label: value }))]}
              onChange={({ detail }) => change("namespace", detail.selectedOption.value ?? "")}
            />
          </FormField>
        </ColumnLayout>
      </Container>
      {kind !== undefined && <Objects key={wanted} cluster={name} kind={kind} namespace={namespace} />}
    </SpaceBetween>
  );
}

const groupOf = ({ group, version }: Kind) => (group === "" ? version : `${group}/${version}`);

function Objects({ cluster, kind, namespace }: { cluster: string; kind: Kind; namespace: string }) {
  const within = kind.namespaced && namespace !== "" ? namespace : undefined;
  const { items, loading, error } = useWatch<KubernetesObject>(cluster, kind, within);
  const columns = useMemo<Column<KubernetesObject>[]>(
    () => [
      {
        id: "name",
        header: "Name",
        text: (o) => o.metadata.name,
        cell: (o) => <AppLink to={objectAddress(cluster, kind, o.metadata)}>{o.metadata.name}</AppLink>,
        width: 340,
      },
      { id: "namespace", header: "Namespace", text: (o) => o.metadata.namespace ?? "", width: 180 },
      {
        id: "status",
        header: "Status",
        text: statusOf,
        cell: (o) => <ObjectStatus object={o} />,
        width: 190,
      },
      {
        id: "created",
        header: "Created",
        text: (o) => o.metadata.creationTimestamp,
        cell: (o) => <Time at={o.metadata.creationTimestamp} />,
        width: 150,
      },
      {
        id: "labels",
        header: "Labels",
        text: (o) =>
          Object.entries(o.metadata.labels ?? {})
            .map(([key, value]) => `${key}=${value}`)
            .join(", "),
        hidden: true,
        width: 420,
      },
    ],
    [cluster, kind],
  );
  const scope = within !== undefined ? ["-n", within] : kind.namespaced ? ["-A"] : [];
  return (
    <ResourceTable
      title={kind.kind}
      nouns={["object", "objects"]}
      items={loading ? undefined : items}
      columns={columns}
      keyOf={(o) => o.metadata.uid}
      nameOf={(o) => o.metadata.name}
      error={error}
      commands={[kubectlCommand(cluster, "get", resourceName(kind), ...scope)]}
    />
  );
}

/** ObjectStatus shows the status of an object, if its kind has one. */
export function ObjectStatus({ object }: { object: KubernetesObject }) {
  const status = statusOf(object);
  if (status === "") return <>-</>;
  const failed = /Err|BackOff|Failed|CrashLoop|Evicted|OOMKilled|Invalid/.test(status);
  const type = failed ? "error" : isSettled(status) ? "success" : "in-progress";
  return <StatusIndicator type={type}>{status}</StatusIndicator>;
}

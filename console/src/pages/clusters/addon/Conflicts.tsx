import type { Addon, AddonIssue, ResolveConflicts, Update } from "@aws-sdk/client-eks";
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "react-router";
import { slow } from "../../../aws/queries";
import { type Command, coracleCommand, eachInTurn, kubectlCommand } from "../../../commands/command";
import { AppLink } from "../../../components/AppLink";
import { ShowCommand } from "../../../components/ShowCommand";
import { Time } from "../../../components/Time";
import { type KubernetesClient, useKubernetes } from "../../../kubernetes/client";
import type { KubernetesObject, Resource } from "../../../kubernetes/objects";
import { objectAddress } from "../../resources/address";
import { type Kind, useKinds } from "../../resources/discovery";
import { changedAt, type Conflict, conflictsOf, valueOf } from "./conflict";
import { type Form, wantedBy } from "./request";

interface Props {
  clusterName: string;
  addon: Addon;
  issues: AddonIssue[];
  /** The update that has failed with the conflicts, if an update has. */
  update: Update | undefined;
}

/** Conflicts explains which fields an add-on wants otherwise than their owners, and leads to the ways out. */
export function Conflicts({ clusterName, addon, issues, update }: Props) {
  const navigate = useNavigate();
  const name = addon.addonName ?? "";
  const namespace = addon.namespaceConfig?.namespace;
  const conflicts = issues.flatMap(conflictsOf);
  const objects = useObjects(clusterName, namespace, [...new Set(conflicts.map(({ resource }) => resource))]);
  const wanted = wantedBy(update);
  const creating = addon.status === "CREATE_FAILED";
  const edit = (resolveConflicts: ResolveConflicts) => {
    const query = new URLSearchParams({ resolveConflicts, ...(update?.id !== undefined && { retry: update.id }) });
    const page = `/clusters/${encodeURIComponent(clusterName)}/add-ons/${encodeURIComponent(name)}/edit`;
    void navigate(`${page}?${query.toString()}`);
  };
  if (conflicts.length === 0) return null;
  return (
    <Alert
      type="error"
      header={`${conflicts.length === 1 ? "A field belongs" : "Fields belong"} to another manager than EKS`}
    >
      <SpaceBetween size="m">
        <Box variant="p">
          The add-on wants other values for these fields than their owners have set. With the conflict resolution method
          None, EKS changes nothing then.
        </Box>
        <Table
          variant="embedded"
          wrapLines
          items={conflicts}
          ariaLabels={{ tableLabel: "Conflicts" }}
          columnDefinitions={[
            {
              id: "object",
              header: "Object",
              isRowHeader: true,
              cell: ({ resource }) => {
                const found = objects[resource];
                if (found === undefined) return resource;
                return <AppLink to={objectAddress(clusterName, found.kind, found.object.metadata)}>{resource}</AppLink>;
              },
            },
            { id: "field", header: "Field", cell: ({ field }) => <Box variant="code">{field}</Box> },
            { id: "manager", header: "Owner", cell: ({ manager }) => manager },
            {
              id: "value",
              header: "Value of the owner",
              cell: ({ resource, field }) => formatValue(valueOf(objects[resource]?.object, field)),
            },
            {
              id: "since",
              header: "Owner’s last change",
              cell: ({ resource, manager }) => (
                <Time at={changedAt(objects[resource]?.object.metadata.managedFields, manager)} />
              ),
            },
          ]}
        />
        <Box fontWeight="bold">Ways out</Box>
        <ul>
          <li>
            <b>Overwrite</b>: EKS takes the fields, and sets the values of the add-on. Those of the owners are lost.
          </li>
          {!creating && (
            <li>
              <b>Preserve</b>: the owners keep the fields. EKS applies the rest, and leaves these alone from then on.
            </li>
          )}
          <li>
            <b>Configuration values</b>: give the add-on the values that the owners have set, where its configuration
            schema has them. Who wants the same does not conflict.
          </li>
          <li>
            <b>Give the fields up</b>: have the owner stop setting them (its manifest, chart or controller), then try
            again with None.
          </li>
        </ul>
        <SpaceBetween direction="horizontal" size="xs">
          <Button onClick={() => edit("OVERWRITE")}>Overwrite</Button>
          {!creating && <Button onClick={() => edit("PRESERVE")}>Preserve</Button>}
          <Button onClick={() => edit("NONE")}>Edit configuration values</Button>
          <ShowCommand label="Show what EKS wants" commands={commandsOf(clusterName, addon, wanted, conflicts)} />
        </SpaceBetween>
      </SpaceBetween>
    </Alert>
  );
}

/** CommandsOf returns what shows the objects with the owner of each field, and what EKS wants of them. */
function commandsOf(cluster: string, addon: Addon, wanted: Partial<Form>, conflicts: Conflict[]): Command[] {
  const { namespace } = addon.namespaceConfig ?? {};
  const within = namespace === undefined ? [] : ["-n", namespace];
  const values = wanted.configurationValues ?? addon.configurationValues;
  const request = [
    ["--addon", addon.addonName ?? ""],
    ["--addon-version", wanted.version ?? addon.addonVersion ?? ""],
    ...(values === undefined ? [] : [["--configuration-values", values]]),
    ["--resolve-conflicts", "NONE"],
  ].flat();
  const resources = [...new Set(conflicts.map(({ resource }) => resource))];
  return [
    ...eachInTurn(resources.map((r) => coracleCommand("fields", r, ...within, "--cluster", cluster, ...request))),
    ...eachInTurn(
      resources.map((r) => kubectlCommand(cluster, "get", r, ...within, "-o", "yaml", "--show-managed-fields")),
    ),
  ];
}

function formatValue(value: unknown): string {
  if (value === undefined) return "-";
  return typeof value === "string" ? value : JSON.stringify(value);
}

interface Found {
  kind: Resource;
  object: KubernetesObject;
}

/** UseObjects reads the objects that an issue names, as far as the reader may. */
function useObjects(cluster: string, namespace: string | undefined, resources: string[]): Record<string, Found> {
  const client = useKubernetes(cluster);
  const kinds = useKinds(cluster);
  const { data } = useQuery({
    queryKey: ["kubernetes", client.base, "conflicts", namespace ?? "", resources],
    queryFn: async ({ signal }) => {
      const found = resources.map(async (resource): Promise<[string, Found] | undefined> => {
        const kind = kindOf(kinds.data ?? [], resource);
        const object = kind && (await read(client, kind, namespace, resource, signal));
        return object && [resource, { kind, object }];
      });
      return Object.fromEntries((await Promise.all(found)).filter((each) => each !== undefined));
    },
    enabled: kinds.data !== undefined,
    refetchInterval: slow,
  });
  return data ?? {};
}

/** KindOf returns the kind of an object by the name that EKS gives it: "deployment.apps/coredns". */
function kindOf(kinds: Kind[], resource: string): Kind | undefined {
  const [kind = "", ...group] = resource.slice(0, resource.indexOf("/")).split(".");
  return kinds.find((k) => k.kind.toLowerCase() === kind && k.group === group.join("."));
}

async function read(
  client: KubernetesClient,
  kind: Kind,
  namespace: string | undefined,
  resource: string,
  signal: AbortSignal,
): Promise<KubernetesObject | undefined> {
  const name = resource.slice(resource.indexOf("/") + 1);
  try {
    return await client.get(kind, kind.namespaced ? namespace : undefined, name, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    return undefined; // gone, or not for the reader: the conflict shows without its value
  }
}

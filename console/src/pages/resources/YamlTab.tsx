import * as tokens from "@cloudscape-design/design-tokens";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Textarea from "@cloudscape-design/components/textarea";
import { useMemo, useState } from "react";
import { parse } from "yaml";
import { useNotifications } from "../../app/notifications";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Time } from "../../components/Time";
import { useKubernetes } from "../../kubernetes/client";
import type { KubernetesObject } from "../../kubernetes/objects";
import type { Named } from "./address";
import { linesOf, managerOf, ownersOf } from "./fieldOwners";

const colors = [
  tokens.colorChartsPaletteCategorical1,
  tokens.colorChartsPaletteCategorical2,
  tokens.colorChartsPaletteCategorical3,
  tokens.colorChartsPaletteCategorical4,
  tokens.colorChartsPaletteCategorical5,
  tokens.colorChartsPaletteCategorical6,
  tokens.colorChartsPaletteCategorical7,
  tokens.colorChartsPaletteCategorical8,
];

interface Props {
  cluster: string;
  of: Named;
  object: KubernetesObject;
}

/** YamlTab shows an object in YAML with the owner of each field in the margin, and edits it. */
export function YamlTab({ cluster, of, object }: Props) {
  const [editing, setEditing] = useState(false);
  const lines = useMemo(
    () => linesOf(object).map(({ text, path }) => ({ text, owners: ownersOf(object, path) })),
    [object],
  );
  const managers = [...new Set((object.metadata.managedFields ?? []).map(managerOf))];
  const colorOf = (manager: string | undefined) =>
    manager === undefined ? "transparent" : colors[managers.indexOf(manager) % colors.length];
  if (editing) return <Editor cluster={cluster} of={of} object={object} onEnd={() => setEditing(false)} />;
  return (
    <SpaceBetween size="l">
      <Container
        header={
          <Header variant="h2" actions={<Button onClick={() => setEditing(true)}>Edit</Button>}>
            YAML
          </Header>
        }
      >
        <table className="owned-yaml" aria-label="YAML, with the owners of fields">
          <tbody>
            {lines.map(({ text, owners }, i) => (
              <tr key={i}>
                <td className="owner" style={{ borderInlineEndColor: colorOf(owners[0]) }} title={owners.join(", ")}>
                  {owners.join(", ") === lines[i - 1]?.owners.join(", ") ? "" : owners.join(", ")}
                </td>
                <td className="line">{text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Container>
      <Container header={<Header variant="h2">Field managers</Header>}>
        {managers.length === 0 && <Box>No manager is known: nothing has changed the object since it was created.</Box>}
        <SpaceBetween size="xs">
          {(object.metadata.managedFields ?? []).map((entry, i) => (
            <Box key={i}>
              <b>{managerOf(entry)}</b>: {entry.operation} in {entry.apiVersion}, <Time at={entry.time} />
            </Box>
          ))}
        </SpaceBetween>
      </Container>
    </SpaceBetween>
  );
}

/** Editor replaces the object. What somebody else changed meanwhile is a conflict, which the API server reports. */
function Editor({ cluster, of, object, onEnd }: Props & { onEnd: () => void }) {
  const client = useKubernetes(cluster);
  const notifications = useNotifications();
  const [text, setText] = useState(() =>
    linesOf(object)
      .map((line) => line.text)
      .join("\n"),
  );
  const [error, setError] = useState<unknown>(null);
  const [saving, setSaving] = useState(false);
  const save = async () => {
    setSaving(true);
    setError(null);
    try {
      await client.replace(of.resource, of.namespace, of.name, parse(text) as object);
      notifications.success(`${of.name} was changed.`);
      onEnd();
    } catch (refused) {
      setError(refused);
      setSaving(false);
    }
  };
  return (
    <Container
      header={
        <Header
          variant="h2"
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <Button variant="link" onClick={onEnd}>
                Cancel
              </Button>
              <Button variant="primary" loading={saving} onClick={() => void save()}>
                Save changes
              </Button>
            </SpaceBetween>
          }
        >
          Edit {of.name}
        </Header>
      }
    >
      <SpaceBetween size="m">
        {error !== null && <ErrorAlert attempted={`Change ${of.name}`} error={error} />}
        <FormField label="YAML" stretch>
          <Textarea
            value={text}
            rows={Math.min(40, text.split("\n").length + 1)}
            spellcheck={false}
            onChange={({ detail }) => setText(detail.value)}
          />
        </FormField>
      </SpaceBetween>
    </Container>
  );
}

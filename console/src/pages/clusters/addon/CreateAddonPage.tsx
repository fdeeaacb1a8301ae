import { type AddonInfo, CreateAddonCommand, EKSClient, ListAddonsCommand } from "@aws-sdk/client-eks";
import Box from "@cloudscape-design/components/box";
import Cards from "@cloudscape-design/components/cards";
import ContentLayout from "@cloudscape-design/components/content-layout";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import TextFilter from "@cloudscape-design/components/text-filter";
import Wizard from "@cloudscape-design/components/wizard";
import { useState } from "react";
import { useNavigate, useParams, useSearchParams } from "react-router";
import { useAws, useAwsChange } from "../../../aws/queries";
import { type Command, inTurn } from "../../../commands/command";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { Loading } from "../../../components/Loading";
import { CommandTabs } from "../../../components/ShowCommand";
import { useSession } from "../../../session/SessionProvider";
import { useCluster } from "../clusters";
import { AddonFields } from "./AddonFields";
import { useAddonVersions } from "./addons";
import { commandsOf, createRequestOf, type Form, newForm, problemsOf, resolutions } from "./request";

const nameOf = ({ addonName = "" }: AddonInfo) => addonName;

/** CreateAddonPage gets more add-ons: chooses some, configures each, and creates them. */
export default function CreateAddonPage() {
  const { cluster: clusterName = "" } = useParams();
  const [query] = useSearchParams();
  const { session } = useSession();
  const navigate = useNavigate();
  const cluster = useCluster(clusterName);
  const version = cluster.data?.cluster?.version;
  const offered = useAddonVersions(version);
  const installed = useAws(EKSClient, ListAddonsCommand, { clusterName });
  const [step, setStep] = useState(0);
  const [chosen, setChosen] = useState<string[]>(query.getAll("addon"));
  const [forms, setForms] = useState<Record<string, Form>>({});
  const [tried, setTried] = useState(false);
  const [creating, setCreating] = useState(false);
  const [failure, setFailure] = useState<{ name: string; error: unknown }>();
  const create = useAwsChange(EKSClient, CreateAddonCommand, {
    attempt: (input) => `Create add-on ${input.addonName ?? ""}`,
    success: (input) => `Add-on ${input.addonName ?? ""} is being created.`,
    quiet: true,
  });
  const failed = cluster.error ?? offered.error ?? installed.error;
  const back = `/clusters/${encodeURIComponent(clusterName)}/add-ons`;
  if (failed !== null) {
    return (
      <ContentLayout header={<Header variant="h1">Get more add-ons</Header>}>
        <ErrorAlert attempted="List add-ons" error={failed} />
      </ContentLayout>
    );
  }
  if (offered.data === undefined || installed.data === undefined) return <Loading what="add-ons" />;
  const left = offered.data.filter((info) => installed.data.addons?.includes(nameOf(info)) !== true);
  const selected = left.filter((info) => chosen.includes(nameOf(info)));
  const formOf = (info: AddonInfo) => forms[nameOf(info)] ?? newForm(info);
  const change = (info: AddonInfo, next: Partial<Form>) =>
    setForms((before) => ({ ...before, [nameOf(info)]: { ...(before[nameOf(info)] ?? newForm(info)), ...next } }));
  const good = selected.every((info) => Object.keys(problemsOf(formOf(info))).length === 0);
  const submit = async () => {
    setCreating(true);
    setFailure(undefined);
    for (const info of selected) {
      try {
        await create.mutateAsync(createRequestOf(clusterName, formOf(info)));
        setChosen((before) => before.filter((name) => name !== nameOf(info)));
      } catch (error) {
        setFailure({ name: nameOf(info), error });
        setCreating(false);
        return;
      }
    }
    void navigate(back);
  };
  return (
    <Wizard
      i18nStrings={texts}
      activeStepIndex={step}
      isLoadingNextStep={creating}
      onCancel={() => void navigate(back)}
      onSubmit={() => void submit()}
      onNavigate={({ detail: { requestedStepIndex: to } }) => {
        setTried(step === 1 && !good);
        if (to > 0 && selected.length === 0) return;
        if (to === 2 && !good) return;
        setStep(to);
      }}
      steps={[
        {
          title: "Select add-ons",
          description: `Select add-ons to enhance cluster ${clusterName}, of Kubernetes version ${version ?? ""}.`,
          content: <Choice all={left} {...{ selected, setChosen }} />,
        },
        {
          title: "Configure selected add-ons settings",
          description: "Configure the add-ons for your cluster by selecting settings.",
          content: (
            <SpaceBetween size="l">
              {selected.map((info) => (
                <AddonFields
                  key={nameOf(info)}
                  info={info}
                  form={formOf(info)}
                  change={(next) => change(info, next)}
                  problems={tried ? problemsOf(formOf(info)) : {}}
                />
              ))}
            </SpaceBetween>
          ),
        },
        {
          title: "Review and add",
          content: (
            <SpaceBetween size="l">
              {selected.map((info) => (
                <Review key={nameOf(info)} form={formOf(info)} />
              ))}
              <ExpandableSection headerText="The same with other tools" variant="container">
                <CommandTabs
                  commands={together(selected.map((info) => commandsOf(clusterName, formOf(info), session.region)))}
                />
              </ExpandableSection>
              {failure !== undefined && (
                <ErrorAlert attempted={`Create add-on ${failure.name}`} error={failure.error} />
              )}
            </SpaceBetween>
          ),
        },
      ]}
    />
  );
}

/** Together returns the commands of each tool in turn. */
function together(all: Command[][]): Command[] {
  const [first = [], ...rest] = all;
  return first.map((command, i) => inTurn(command, ...rest.flatMap((commands) => commands[i] ?? [])));
}

interface ChoiceProps {
  all: AddonInfo[];
  selected: AddonInfo[];
  setChosen: (names: string[]) => void;
}

function Choice({ all, selected, setChosen }: ChoiceProps) {
  const [filtering, setFiltering] = useState("");
  const wanted = filtering.trim().toLowerCase();
  const shown = all.filter((info) =>
    [info.addonName, info.type, info.publisher, info.owner].some((text) => text?.toLowerCase().includes(wanted)),
  );
  return (
    <Cards
      items={shown}
      trackBy={nameOf}
      selectionType="multi"
      selectedItems={selected}
      onSelectionChange={({ detail }) => setChosen(detail.selectedItems.map(nameOf))}
      cardsPerRow={[{ cards: 1 }, { minWidth: 640, cards: 2 }, { minWidth: 1200, cards: 3 }]}
      ariaLabels={{
        itemSelectionLabel: (_, info) => `Select ${nameOf(info)}`,
        selectionGroupLabel: "Add-ons",
      }}
      header={
        <Header variant="h2" counter={`(${all.length})`}>
          Add-ons
        </Header>
      }
      filter={
        <TextFilter
          filteringText={filtering}
          filteringPlaceholder="Find add-on"
          filteringAriaLabel="Find add-on"
          countText={`${shown.length} ${shown.length === 1 ? "match" : "matches"}`}
          onChange={({ detail }) => setFiltering(detail.filteringText)}
        />
      }
      empty={<Box textAlign="center">No add-ons</Box>}
      cardDefinition={{
        header: nameOf,
        sections: [
          {
            id: "about",
            content: (info) => (
              <KeyValuePairs
                columns={2}
                items={[
                  { label: "Category", value: info.type ?? "-" },
                  { label: "Listed by", value: info.publisher ?? "-" },
                  { label: "Default namespace", value: info.defaultNamespace ?? "-" },
                  { label: "Latest version", value: info.addonVersions?.[0]?.addonVersion ?? "-" },
                ]}
              />
            ),
          },
        ],
      }}
    />
  );
}

function Review({ form }: { form: Form }) {
  const roles = Object.entries(form.podRoles).filter(([, role]) => role !== "");
  const access = {
    "pod-identity": roles.map(([account, role]) => `${account}: ${role}`).join(", "),
    irsa: form.serviceAccountRoleArn,
    none: "The IAM role of the node",
  }[form.access];
  return (
    <ExpandableSection headerText={form.name} variant="container" defaultExpanded>
      <KeyValuePairs
        columns={3}
        items={[
          { label: "Version", value: form.version },
          { label: "Add-on access", value: access === "" ? "-" : access },
          {
            label: "Conflict resolution method",
            value: resolutions.create.find(({ value }) => value === form.resolveConflicts)?.label,
          },
          { label: "Namespace", value: form.namespace === "" ? "Default" : form.namespace },
          { label: "Configuration values", value: form.configurationValues === "" ? "-" : form.configurationValues },
          { label: "Tags", value: form.tags.map(({ key, value }) => `${key}=${value}`).join(", ") || "-" },
        ]}
      />
    </ExpandableSection>
  );
}

const texts = {
  stepNumberLabel: (n: number) => `Step ${n}`,
  collapsedStepsLabel: (n: number, count: number) => `Step ${n} of ${count}`,
  navigationAriaLabel: "Steps",
  cancelButton: "Cancel",
  previousButton: "Previous",
  nextButton: "Next",
  submitButton: "Create",
  optional: "optional",
};

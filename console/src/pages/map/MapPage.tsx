import type { NetworkInsightsAnalysis } from "@aws-sdk/client-ec2";
import Alert from "@cloudscape-design/components/alert";
import Autosuggest from "@cloudscape-design/components/autosuggest";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Header from "@cloudscape-design/components/header";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import SplitPanel from "@cloudscape-design/components/split-panel";
import Tabs from "@cloudscape-design/components/tabs";
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { useSearchParams } from "react-router";
import { useSplitPanel } from "../../app/splitPanel";
import { describeError } from "../../aws/errors";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { ShowCommand } from "../../components/ShowCommand";
import { useSession } from "../../session/SessionProvider";
import { useClusters } from "../clusters/clusters";
import { Details } from "./Details";
import { mapCommands, useFacts } from "./facts";
import { count, layOut } from "./layout";
import { Legend } from "./Legend";
import { MapCanvas } from "./MapCanvas";
import { type Network, networksOf } from "./network";
import { usePods } from "./pods";
import { idsOf, wayOf } from "./reachability";
import { type Ends, ReachabilityForm } from "./ReachabilityForm";
import { relatedTo, type Thing, thingsOf, titleOf } from "./things";
import { centerOn, fit, newViewStore, type Size, type View, zoomAt } from "./view";

const noFacts: Network[] = [];

/** MapPage shows the VPCs of the region, with all that is in them, and whether packets get from one to the other. */
export default function MapPage() {
  const { session } = useSession();
  const [parameters, setParameters] = useSearchParams();
  const vpc = parameters.get("vpc") ?? "";
  const clusters = useClusters();
  const inVpcs = useMemo(
    () =>
      (clusters.data ?? [])
        .filter(({ status }) => status === "ACTIVE")
        .map(({ name, resourcesVpcConfig }) => ({ name: name ?? "", vpc: resourcesVpcConfig?.vpcId ?? "" })),
    [clusters.data],
  );
  const followed = usePods(inVpcs);
  const pods = useDeferredValue(followed.pods);
  const { facts, errors, retry } = useFacts(pods);
  const networks = useMemo(() => (facts === undefined ? noFacts : networksOf(facts, pods)), [facts, pods]);
  const shown = useMemo(() => networks.filter(({ id }) => vpc === "" || id === vpc), [networks, vpc]);
  const layout = useMemo(() => layOut(shown), [shown]);
  const things = useMemo(() => thingsOf(shown), [shown]);

  const [selection, setSelection] = useState<{ id: string; address?: string }>();
  const [ends, setEnds] = useState<Ends>({ source: "", destination: "" });
  const [analysis, setAnalysis] = useState<NetworkInsightsAnalysis>();
  const [tab, setTab] = useState("details");
  const thing = selection === undefined ? undefined : things.get(selection.id);
  const related = useMemo(() => relatedTo(thing, things), [thing, things]);
  const path = useMemo(() => wayOf(analysis), [analysis]);
  const analyzed = useMemo(() => idsOf(analysis), [analysis]);

  const [frame, size] = useSize();
  const [store] = useState(newViewStore);
  const onView = useCallback(
    (change: (before: View) => View) => store.set(change(store.get() ?? fit(layout, size))),
    [layout, size, store],
  );
  const onSelect = useCallback((id: string | undefined, address?: string) => {
    setSelection(id === undefined ? undefined : { id, address });
    if (id !== undefined) setTab("details");
  }, []);
  const goTo = useCallback(
    (id: string, address?: string) => {
      onSelect(id, address);
      const box = layout.boxes.get(id);
      if (box !== undefined) onView((before) => centerOn(before, box, size));
    },
    [layout, onSelect, onView, size],
  );

  const panel = useMemo(() => {
    const named = thing === undefined ? undefined : titleOf(thing);
    const choose = (end: Partial<Ends>) => {
      setAnalysis(undefined);
      setEnds((before) => ({ ...before, ...end }));
      setTab("reachability");
    };
    return (
      <SplitPanel
        header={named === undefined ? "Details and reachability" : `${named.what}: ${named.title}`}
        i18nStrings={panelStrings}
      >
        <Tabs
          ariaLabel="What is shown of the map"
          activeTabId={tab}
          onChange={({ detail }) => setTab(detail.activeTabId)}
          tabs={[
            {
              id: "details",
              label: "Details",
              content:
                thing === undefined ? (
                  <Box color="text-body-secondary">Select something on the map.</Box>
                ) : (
                  <Details
                    thing={thing}
                    address={selection?.address}
                    onSelect={goTo}
                    onSource={(source) => choose({ source })}
                    onDestination={(destination) => choose({ destination })}
                  />
                ),
            },
            {
              id: "reachability",
              label: "Reachability",
              content: <ReachabilityForm ends={ends} onEnds={setEnds} analysis={analysis} onAnalysis={setAnalysis} />,
            },
          ]}
        />
      </SplitPanel>
    );
  }, [analysis, ends, goTo, selection, tab, thing]);
  useSplitPanel(panel);

  const vpcOptions = [
    { value: "", label: "All VPCs" },
    ...networks.map(({ id, name }) => ({ value: id, label: name, description: name === id ? undefined : id })),
  ];
  return (
    <SpaceBetween size="s">
      <Header
        variant="h1"
        description={facts && `${count(facts.instances.length, "instance")}, ${count(pods.length, "pod")}`}
        actions={
          <ShowCommand
            commands={mapCommands(
              session.region,
              inVpcs.map(({ name }) => name),
            )}
          />
        }
      >
        Map
      </Header>
      {errors.map(({ attempted, error }) => (
        <ErrorAlert key={attempted} attempted={attempted} error={error} retry={retry} />
      ))}
      {clusters.error !== null && (
        <ErrorAlert attempted="Describe clusters" error={clusters.error} retry={() => void clusters.refetch()} />
      )}
      {followed.errors.size > 0 && (
        <Alert type="info" header="Some pods are not on the map">
          {[...followed.errors].map(([name, error]) => (
            <div key={name}>
              Pods of cluster {name} cannot be read: {describeError(error).message}
            </div>
          ))}
        </Alert>
      )}
      <SpaceBetween direction="horizontal" size="xs" alignItems="center">
        <Select
          ariaLabel="VPC"
          selectedOption={vpcOptions.find(({ value }) => value === vpc) ?? { value: vpc, label: vpc }}
          options={vpcOptions}
          onChange={({ detail }) => {
            const next = detail.selectedOption.value ?? "";
            store.set(undefined);
            setParameters(next === "" ? {} : { vpc: next });
          }}
        />
        <Search things={things} onFound={goTo} />
        <Button
          iconName="zoom-in"
          ariaLabel="Zoom in"
          onClick={() => onView((before) => zoomAt(before, 1.5, size.width / 2, size.height / 2))}
        />
        <Button
          iconName="zoom-out"
          ariaLabel="Zoom out"
          onClick={() => onView((before) => zoomAt(before, 1 / 1.5, size.width / 2, size.height / 2))}
        />
        <Button iconName="zoom-to-fit" ariaLabel="Show all" onClick={() => store.set(undefined)} />
      </SpaceBetween>
      {facts === undefined && <Loading what="network" />}
      {facts !== undefined && shown.length === 0 && <Box textAlign="center">No VPCs in this region.</Box>}
      <div ref={frame}>
        {facts !== undefined && shown.length > 0 && (
          <MapCanvas
            layout={layout}
            store={store}
            size={size}
            selected={selection?.id}
            address={selection?.address}
            related={related}
            path={path}
            analyzed={analyzed}
            onView={onView}
            onSelect={onSelect}
          />
        )}
      </div>
      <Legend />
    </SpaceBetween>
  );
}

const panelStrings = {
  closeButtonAriaLabel: "Close panel",
  openButtonAriaLabel: "Open panel",
  preferencesTitle: "Split panel preferences",
  preferencesPositionLabel: "Split panel position",
  preferencesPositionDescription: "Choose the position of the split panel.",
  preferencesPositionSide: "Side",
  preferencesPositionBottom: "Bottom",
  preferencesConfirm: "Confirm",
  preferencesCancel: "Cancel",
  resizeHandleAriaLabel: "Resize split panel",
};

/** UseSize returns the size that the map has: all the width, and what is left of the window's height. */
function useSize(): [React.RefObject<HTMLDivElement | null>, Size] {
  const frame = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState<Size>({ width: 1000, height: 600 });
  useEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const measure = () => {
      const width = element.clientWidth;
      const height = Math.max(360, window.innerHeight - 330);
      setSize((before) => (before.width === width && before.height === height ? before : { width, height }));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    window.addEventListener("resize", measure);
    return () => {
      observer.disconnect();
      window.removeEventListener("resize", measure);
    };
  }, []);
  return [frame, size];
}

/** How many things a search lists. */
const mostFound = 50;

function Search({ things, onFound }: { things: Map<string, Thing>; onFound: (id: string, address?: string) => void }) {
  const [text, setText] = useState("");
  const options = useMemo(() => {
    const wanted = text.trim().toLowerCase();
    const found: { value: string; label: string; description: string; tags?: string[] }[] = [];
    if (wanted === "") return found;
    for (const [id, thing] of things) {
      if (found.length >= mostFound) break;
      const { title, what } = titleOf(thing);
      if (`${id} ${title}`.toLowerCase().includes(wanted)) found.push({ value: id, label: title, description: what });
      if (thing.type !== "interface") continue;
      for (const { ip, pods } of thing.eni.addresses) {
        const names = pods.map(({ namespace, name }) => `${namespace}/${name}`);
        if (!ip.startsWith(wanted) && !names.some((name) => name.includes(wanted))) continue;
        const matching = names.filter((name) => name.includes(wanted));
        const label = matching[0] ?? names[0] ?? ip;
        found.push({ value: `${id} ${ip}`, label, description: names.length > 0 ? `Pod, ${ip}` : `Address of ${id}` });
      }
    }
    return found.slice(0, mostFound);
  }, [text, things]);
  return (
    <Autosuggest
      ariaLabel="Find something on the map"
      placeholder="Find by name, ID or address"
      value={text}
      options={options}
      filteringType="manual"
      empty={text === "" ? "Enter a name, an ID or an address" : "Nothing found"}
      enteredTextLabel={(value) => `Find ${value}`}
      onChange={({ detail }) => setText(detail.value)}
      onSelect={({ detail }) => {
        const [id = "", address] = detail.value.split(" ");
        if (!things.has(id)) return;
        setText("");
        onFound(id, address);
      }}
    />
  );
}

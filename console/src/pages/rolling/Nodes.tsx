import Box from "@cloudscape-design/components/box";
import Cards from "@cloudscape-design/components/cards";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import Header from "@cloudscape-design/components/header";
import Pagination from "@cloudscape-design/components/pagination";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator, { type StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";
import { useMemo, useState } from "react";
import { AppLink } from "../../components/AppLink";
import { nodes } from "../../kubernetes/objects";
import { objectAddress } from "../resources/address";
import type { Blocker } from "./budgets";
import { Pods, PodLegend } from "./Pods";
import type { Member, MemberState } from "./rolling";

interface Props {
  cluster: string;
  members: Member[];
  blockers: Blocker[];
}

/** Nodes shows the old nodes of a group beside the new ones, each with its pods. */
export function Nodes({ cluster, members, blockers }: Props) {
  const blocked = useMemo(() => new Set(blockers.flatMap(({ pods }) => pods.map(({ uid }) => uid))), [blockers]);
  const [old, fresh] = useMemo(
    () => [members.filter((member) => member.old), members.filter((member) => !member.old)],
    [members],
  );
  return (
    <SpaceBetween size="m">
      <ColumnLayout columns={2} minColumnWidth={400}>
        <Side title="Old nodes" none="No old nodes are left." members={old} {...{ cluster, blocked }} />
        <Side title="New nodes" none="There are no new nodes." members={fresh} {...{ cluster, blocked }} />
      </ColumnLayout>
      <PodLegend />
    </SpaceBetween>
  );
}

const types: Record<MemberState, StatusIndicatorProps.Type> = {
  "Launching": "pending",
  "Joining": "in-progress",
  "Not ready": "in-progress",
  "Ready": "success",
  "Cordoned": "stopped",
  "Draining": "in-progress",
  "Drained": "stopped",
  "Terminating": "in-progress",
};

const perPage = 20;

interface SideProps {
  cluster: string;
  title: string;
  none: string;
  members: Member[];
  /** UIDs of pods that a budget keeps from being evicted. */
  blocked: Set<string>;
}

function Side({ cluster, title, none, members, blocked }: SideProps) {
  const [page, setPage] = useState(1);
  const pages = Math.max(1, Math.ceil(members.length / perPage));
  const at = Math.min(page, pages);
  return (
    <Cards
      items={members.slice((at - 1) * perPage, at * perPage)}
      trackBy="id"
      header={
        <Header variant="h2" counter={`(${members.length})`}>
          {title}
        </Header>
      }
      pagination={
        pages > 1 ? (
          <Pagination
            currentPageIndex={at}
            pagesCount={pages}
            onChange={({ detail }) => setPage(detail.currentPageIndex)}
            ariaLabels={{
              nextPageLabel: "Next page",
              previousPageLabel: "Previous page",
              pageLabel: (n) => `Page ${n} of all pages`,
            }}
          />
        ) : undefined
      }
      empty={<Box color="text-body-secondary">{none}</Box>}
      cardsPerRow={[{ cards: 1 }]}
      ariaLabels={{ itemSelectionLabel: (_, { id }) => `Select ${id}`, selectionGroupLabel: title }}
      cardDefinition={{
        header: ({ id, node }) =>
          node === undefined ? (
            id
          ) : (
            <AppLink fontSize="inherit" to={objectAddress(cluster, nodes, { name: node.name })}>
              {node.name}
            </AppLink>
          ),
        sections: [
          {
            id: "state",
            content: ({ state, node }) => (
              <StatusIndicator type={types[state]}>
                {state === "Cordoned" && node?.ready === false ? "Cordoned, not ready" : state}
              </StatusIndicator>
            ),
          },
          {
            id: "what",
            content: ({ id, zone, node }) => (
              <Box fontSize="body-s" color="text-body-secondary">
                {[id, zone, node?.version].filter(Boolean).join(", ")}
              </Box>
            ),
          },
          { id: "pods", content: ({ pods }) => <Pods pods={pods} blocked={blocked} /> },
        ],
      }}
    />
  );
}

import {
  DescribeInsightCommand,
  EKSClient,
  type InsightSummary,
  paginateListInsights,
  StartInsightsRefreshCommand,
} from "@aws-sdk/client-eks";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import Link from "@cloudscape-design/components/link";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import type { UseQueryResult } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useAws, useAwsChange, useAwsPages } from "../../../aws/queries";
import { awsCommand } from "../../../commands/command";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { Loading } from "../../../components/Loading";
import { type Column, ResourceTable } from "../../../components/ResourceTable";
import { CommandTabs } from "../../../components/ShowCommand";
import { Status } from "../../../components/Status";
import { Time } from "../../../components/Time";
import { useSession } from "../../../session/SessionProvider";

/** UseUpgradeInsights lists what stands in the way of upgrades of a cluster, or of one to a version. */
export function useUpgradeInsights(clusterName: string, version?: string): UseQueryResult<InsightSummary[]> {
  const kubernetesVersions = version === undefined ? undefined : [version];
  const filter = { categories: ["UPGRADE_READINESS" as const], kubernetesVersions };
  return useAwsPages(EKSClient, paginateListInsights, { clusterName, filter }, (page) => page.insights);
}

/** UpgradeInsights are EKS's checks before upgrades of a cluster, each with what to do. */
export function UpgradeInsights({ name }: { name: string }) {
  const { session } = useSession();
  const insights = useUpgradeInsights(name);
  const [open, setOpen] = useState<string>();
  const refresh = useAwsChange(EKSClient, StartInsightsRefreshCommand, {
    attempt: () => "Refresh the insights",
    success: () => "The insights are being refreshed.",
  });
  const columns = useMemo<Column<InsightSummary>[]>(
    () => [
      {
        id: "name",
        header: "Name",
        text: (i) => i.name ?? "",
        cell: (i) => (
          <Link variant="primary" onFollow={() => setOpen(i.id)}>
            {i.name}
          </Link>
        ),
        width: 300,
      },
      {
        id: "status",
        header: "Insight status",
        text: (i) => i.insightStatus?.status ?? "",
        cell: (i) => <Status status={i.insightStatus?.status} />,
        width: 150,
      },
      { id: "version", header: "Kubernetes version", text: (i) => i.kubernetesVersion ?? "", width: 180 },
      { id: "reason", header: "Reason", text: (i) => i.insightStatus?.reason ?? "", width: 360 },
      {
        id: "refreshed",
        header: "Last refresh",
        text: (i) => i.lastRefreshTime?.toISOString() ?? "",
        cell: (i) => <Time at={i.lastRefreshTime} />,
        width: 150,
      },
      {
        id: "changed",
        header: "Last transition",
        text: (i) => i.lastTransitionTime?.toISOString() ?? "",
        cell: (i) => <Time at={i.lastTransitionTime} />,
        width: 150,
      },
    ],
    [],
  );
  return (
    <>
      <ResourceTable
        title="Upgrade insights"
        nouns={["insight", "insights"]}
        items={insights.data}
        columns={columns}
        keyOf={(i) => i.id ?? ""}
        nameOf={(i) => i.name ?? ""}
        error={insights.error}
        refresh={() => void insights.refetch()}
        refreshing={insights.isFetching}
        commands={[awsCommand("eks", "list-insights", { clusterName: name }, session.region)]}
        actions={
          <Button loading={refresh.isPending} onClick={() => refresh.mutate({ clusterName: name })}>
            Check again
          </Button>
        }
      />
      {open !== undefined && <Insight clusterName={name} id={open} onDismiss={() => setOpen(undefined)} />}
    </>
  );
}

/** Insight is what EKS says of one check, and what to do. */
export function Insight({ clusterName, id, onDismiss }: { clusterName: string; id: string; onDismiss: () => void }) {
  const { session } = useSession();
  const { data, error } = useAws(EKSClient, DescribeInsightCommand, { clusterName, id });
  const insight = data?.insight;
  const details = insight?.categorySpecificSummary;
  return (
    <Modal visible size="large" header={insight?.name ?? "Insight"} closeAriaLabel="Close" onDismiss={onDismiss}>
      <SpaceBetween size="m">
        {error !== null && <ErrorAlert attempted="Describe the insight" error={error} />}
        {insight === undefined ? (
          error === null && <Loading what="the insight" />
        ) : (
          <>
            <KeyValuePairs
              columns={2}
              items={[
                { label: "Insight status", value: <Status status={insight.insightStatus?.status} /> },
                { label: "Kubernetes version", value: insight.kubernetesVersion ?? "-" },
                { label: "Reason", value: insight.insightStatus?.reason ?? "-" },
                { label: "Recommendation", value: insight.recommendation ?? "-" },
                { label: "Description", value: insight.description ?? "-" },
              ]}
            />
            <Resources
              title="Affected resources"
              rows={insight.resources?.map((r) => [r.kubernetesResourceUri ?? r.arn ?? "-", r.insightStatus?.reason])}
            />
            <Resources
              title="Deprecated APIs"
              rows={details?.deprecationDetails?.map((d) => [
                `${d.usage ?? ""}, removed in ${d.stopServingVersion ?? "?"}; use ${d.replacedWith || "none"} instead`,
                d.clientStats
                  ?.map((c) => `${c.userAgent ?? ""}: ${c.numberOfRequestsLast30Days ?? 0} requests in 30 days`)
                  .join("; "),
              ])}
            />
            <Resources
              title="Add-ons"
              rows={details?.addonCompatibilityDetails?.map((a) => [a.name ?? "", a.compatibleVersions?.join(", ")])}
            />
          </>
        )}
        <CommandTabs commands={[awsCommand("eks", "describe-insight", { clusterName, id }, session.region)]} />
      </SpaceBetween>
    </Modal>
  );
}

function Resources({ title, rows = [] }: { title: string; rows?: [string, string | undefined][] }) {
  if (rows.length === 0) return null;
  return (
    <Table
      variant="embedded"
      wrapLines
      items={rows}
      ariaLabels={{ tableLabel: title }}
      columnDefinitions={[
        { id: "what", header: title, cell: ([what]) => <Box>{what}</Box>, isRowHeader: true },
        { id: "detail", header: "Details", cell: ([, detail]) => detail ?? "-" },
      ]}
    />
  );
}

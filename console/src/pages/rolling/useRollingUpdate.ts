// What the page of a rolling update reads, and follows.
import {
  type Activity,
  type AutoScalingGroup,
  AutoScalingClient,
  DescribeAutoScalingGroupsCommand,
  DescribeScalingActivitiesCommand,
} from "@aws-sdk/client-auto-scaling";
import {
  DescribeNodegroupCommand,
  DescribeUpdateCommand,
  EKSClient,
  type Nodegroup,
  paginateListUpdates,
  type Update,
} from "@aws-sdk/client-eks";
import { useDeferredValue, useMemo } from "react";
import { useDescribed } from "../../aws/describe";
import { fast, pollWhile, slow, useAws } from "../../aws/queries";
import { events as eventResource, nodes as nodeResource, pods as podResource } from "../../kubernetes/objects";
import { useWatch } from "../../kubernetes/watch";
import { type Blocker, blockersOf, type Budget } from "./budgets";
import {
  budgets as budgetResource,
  type Node,
  nodeOf,
  type NodeObject,
  type Pod,
  podOf,
  type PodObject,
} from "./objects";
import {
  type Happening,
  happeningsOf,
  type KubernetesEvent,
  type Member,
  membersOf,
  moving,
  type Step,
  stepsOf,
  type Workload,
  workloadsOf,
} from "./rolling";

export interface RollingUpdate {
  nodegroup?: Nodegroup;
  group?: AutoScalingGroup;
  /** The version updates of the node group, the last one first. */
  updates?: Update[];
  /** The update that is shown; undefined where there is none. */
  update?: Update;
  /** There is no later update. What is shown of nodes is about this one. */
  isLast: boolean;
  members: Member[];
  steps: Step[];
  blockers: Blocker[];
  workloads: Workload[];
  happenings: Happening[];
  loading: boolean;
  errors: { attempted: string; error: Error; retry?: () => void }[];
}

const created = ({ createdAt }: Update) => createdAt?.getTime() ?? 0;

/** UseUpdates returns the version updates of a node group, the last one first. */
export function useUpdates(name: string, nodegroupName: string) {
  return useDescribed(EKSClient, {
    paginate: paginateListUpdates,
    input: { name, nodegroupName },
    pages: (client) => paginateListUpdates({ client }, { name, nodegroupName }),
    names: (page) => page.updateIds,
    describe: async (client, updateId, abortSignal) =>
      (await client.send(new DescribeUpdateCommand({ name, nodegroupName, updateId }), { abortSignal })).update,
  });
}

/** UseRollingUpdate follows a version update of a node group: the last one, unless another is wanted. */
export function useRollingUpdate(cluster: string, nodegroupName: string, wanted: string | undefined): RollingUpdate {
  const listed = useUpdates(cluster, nodegroupName);
  const updates = useMemo(
    () => listed.data?.filter(({ type }) => type === "VersionUpdate").sort((a, b) => created(b) - created(a)),
    [listed.data],
  );
  const [last] = updates ?? [];
  const updateId = wanted ?? last?.id;
  const described = useAws(
    EKSClient,
    DescribeUpdateCommand,
    { name: cluster, nodegroupName, updateId },
    { poll: pollWhile(({ update }) => update?.status === "InProgress"), enabled: updateId !== undefined },
  );
  const update = described.data?.update;
  const isLast = updateId !== undefined && updateId === last?.id;
  const poll = update?.status === "InProgress" ? fast : slow;
  const group = useAws(EKSClient, DescribeNodegroupCommand, { clusterName: cluster, nodegroupName }, { poll });
  const nodegroup = group.data?.nodegroup;
  const AutoScalingGroupName = nodegroup?.resources?.autoScalingGroups?.[0]?.name;
  const scaling = { poll, enabled: AutoScalingGroupName !== undefined };
  const groups = useAws(
    AutoScalingClient,
    DescribeAutoScalingGroupsCommand,
    { AutoScalingGroupNames: AutoScalingGroupName === undefined ? [] : [AutoScalingGroupName] },
    scaling,
  );
  const activities = useAws(AutoScalingClient, DescribeScalingActivitiesCommand, { AutoScalingGroupName }, scaling);
  const autoScalingGroup = groups.data?.AutoScalingGroups?.[0];

  const nodes = useWatch<NodeObject, Node>(cluster, nodeResource, undefined, {}, nodeOf);
  const pods = useWatch<PodObject, Pod>(cluster, podResource, undefined, {}, podOf);
  const budgets = useWatch<Budget>(cluster, budgetResource);
  const events = useWatch<KubernetesEvent>(cluster, eventResource, undefined, {
    fieldSelector: "involvedObject.kind=Node",
  });
  const allPods = useDeferredValue(pods.items);
  const members = useMemo(
    () => membersOf(autoScalingGroup, nodes.items, allPods),
    [autoScalingGroup, nodes.items, allPods],
  );
  const steps = useMemo(
    () => stepsOf(update, nodegroup, autoScalingGroup, members),
    [update, nodegroup, autoScalingGroup, members],
  );
  const blockers = useMemo(() => {
    const leaving = members.filter(({ old, node }) => old && node?.unschedulable === true);
    return blockersOf(
      budgets.items,
      leaving.flatMap((member) => moving(member.pods)),
    );
  }, [budgets.items, members]);
  const workloads = useMemo(() => workloadsOf(members, allPods), [members, allPods]);
  const later = updates?.findLast((each) => update !== undefined && created(each) > created(update))?.createdAt;
  const happenings = useMemo(
    () => happeningsOf(activities.data?.Activities ?? noActivities, events.items, members, update?.createdAt, later),
    [activities.data, events.items, members, update?.createdAt, later],
  );

  const queries = {
    [`List the updates of node group ${nodegroupName}`]: listed,
    [`Describe update ${updateId ?? ""}`]: described,
    [`Describe node group ${nodegroupName}`]: group,
    [`Describe Auto Scaling group ${AutoScalingGroupName ?? ""}`]: groups,
    [`Describe the scaling activities of ${AutoScalingGroupName ?? ""}`]: activities,
  };
  const watches = { "Follow nodes": nodes, "Follow pods": pods, "Follow budgets": budgets, "Follow events": events };
  return {
    nodegroup,
    group: autoScalingGroup,
    updates,
    update,
    isLast,
    members,
    steps,
    blockers,
    workloads,
    happenings,
    loading: listed.isPending || group.isPending || (updateId !== undefined && described.isPending),
    errors: [
      ...Object.entries(queries).flatMap(([attempted, { error, refetch }]) =>
        error === null ? [] : [{ attempted, error, retry: () => void refetch() }],
      ),
      ...Object.entries(watches).flatMap(([attempted, { error }]) => (error === null ? [] : [{ attempted, error }])),
    ],
  };
}

const noActivities: Activity[] = [];

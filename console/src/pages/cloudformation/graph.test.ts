import { expect, test } from "vitest";
import { curve, type Graph, type GraphNode, layOutGraph, neighborOf, nodeHeight, nodeWidth } from "./graph";
import { resourcesOf } from "./template";

const template = JSON.stringify({
  Resources: {
    Cluster: { Type: "AWS::EKS::Cluster", Properties: { RoleArn: { "Fn::GetAtt": "Role.Arn" } } },
    Nodes: { Type: "AWS::EKS::Nodegroup", DependsOn: "Cluster", Properties: { NodeRole: { Ref: "Role" } } },
    Role: { Type: "AWS::IAM::Role" },
    Queue: { Type: "AWS::SQS::Queue" },
  },
});

function nodeOf({ nodes }: Graph, id: string): GraphNode {
  const node = nodes.find((each) => each.id === id);
  if (node === undefined) throw new Error(`${id} is not in the graph`);
  return node;
}

test("what a resource depends on is left of it", () => {
  const graph = layOutGraph(resourcesOf(template), []);
  for (const { from, to, points } of graph.edges) {
    expect(nodeOf(graph, to).x + nodeWidth).toBeLessThan(nodeOf(graph, from).x);
    expect(points[0]?.x).toBeGreaterThan(points.at(-1)?.x ?? Infinity);
  }
  expect(graph.edges.map(({ from, to }) => `${from} ${to}`)).toEqual(["Cluster Role", "Nodes Cluster", "Nodes Role"]);
});

test("all is within the graph, and nothing is on something else", () => {
  const graph = layOutGraph(resourcesOf(template), ["Removed", "Role"]);
  expect(graph.nodes.map(({ id }) => id).sort()).toEqual(["Cluster", "Nodes", "Queue", "Removed", "Role"]);
  for (const node of graph.nodes) {
    expect(Math.min(node.x, node.y)).toBeGreaterThanOrEqual(0);
    expect(node.x + nodeWidth).toBeLessThanOrEqual(graph.width);
    expect(node.y + nodeHeight).toBeLessThanOrEqual(graph.height);
    const over = graph.nodes.filter(
      ({ x, y }) => Math.abs(x - node.x) < nodeWidth && Math.abs(y - node.y) < nodeHeight,
    );
    expect(over).toEqual([node]);
  }
});

test("a stack without resources is an empty graph", () => {
  expect(layOutGraph(new Map(), [])).toMatchObject({ nodes: [], edges: [] });
});

test("a circle, which CloudFormation refuses, has a layout", () => {
  const circle = '{"Resources":{"A":{"DependsOn":"B"},"B":{"DependsOn":"A"}}}';
  expect(layOutGraph(resourcesOf(circle), []).edges).toHaveLength(2);
});

test("arrow keys go to what is nearest", () => {
  const graph = layOutGraph(resourcesOf(template), []);
  const cluster = nodeOf(graph, "Cluster");
  expect(neighborOf(graph.nodes, cluster, "ArrowLeft")?.id).toBe("Role");
  expect(neighborOf(graph.nodes, cluster, "ArrowRight")?.id).toBe("Nodes");
  expect(neighborOf(graph.nodes, nodeOf(graph, "Nodes"), "ArrowRight")).toBeUndefined();
  expect(neighborOf(graph.nodes, cluster, "Enter")).toBeUndefined();
});

test("lines begin and end at their points", () => {
  expect(curve([])).toBe("");
  expect(curve([{ x: 0, y: 0 }, { x: 9, y: 3 }])).toBe("M0 0L9 3");
  expect(curve([{ x: 0, y: 0 }, { x: 4, y: 0 }, { x: 8, y: 4 }, { x: 12, y: 4 }])).toBe("M0 0Q4 0 6 2Q8 4 12 4");
});

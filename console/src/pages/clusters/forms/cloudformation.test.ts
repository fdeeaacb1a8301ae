import { expect, test } from "vitest";
import { propertiesOf } from "./cloudformation";

test("members get a capital, and chosen names stay", () => {
  expect(
    propertiesOf({
      labels: { team: "blue" },
      taints: [{ key: "gpu", effect: "NO_SCHEDULE" }],
      scalingConfig: { minSize: 1 },
      subnets: ["subnet-1"],
    }),
  ).toEqual({
    Labels: { team: "blue" },
    Taints: [{ Key: "gpu", Effect: "NO_SCHEDULE" }],
    ScalingConfig: { MinSize: 1 },
    Subnets: ["subnet-1"],
  });
});

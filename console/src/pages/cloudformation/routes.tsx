import { type Area, page } from "../../app/area";
import { stackAddress, stackName } from "./stacks";

const stacks = { text: "Stacks", to: "/stacks" };

const area: Area = {
  links: [{ order: 500, section: "CloudFormation", ...stacks }],
  routes: [
    page("/stacks", () => [stacks], () => import("./StacksPage")),
    page(
      "/stacks/:stack/:tab?",
      ({ stack = "" }) => [stacks, { text: stackName(stack), to: stackAddress(stack) }],
      () => import("./StackPage"),
    ),
  ],
};

export default area;

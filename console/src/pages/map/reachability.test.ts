import { expect, test } from "vitest";
import { analysisCommand, endOf, headerText, idsOf, meaningOf, pathInput, placesOf, rulesOf } from "./reachability";

test("what somebody enters is a resource, an address, or both", () => {
  expect(endOf("i-0123456789abcdef0")).toEqual({ id: "i-0123456789abcdef0", ip: undefined });
  expect(endOf(" 10.0.0.7 ")).toEqual({ id: undefined, ip: "10.0.0.7" });
  expect(endOf("eni-0a1b, 10.0.0.7")).toEqual({ id: "eni-0a1b", ip: "10.0.0.7" });
  expect(endOf("what?")).toBeUndefined();
  expect(endOf("")).toBeUndefined();
});

const question = {
  source: { id: "eni-1", ip: "10.0.0.7" },
  destination: { ip: "10.0.1.9" },
  protocol: "tcp" as const,
  port: 443,
};

test("the request for a path", () => {
  expect(pathInput(question)).toEqual({
    Source: "eni-1",
    SourceIp: "10.0.0.7",
    Destination: undefined,
    DestinationIp: "10.0.1.9",
    Protocol: "tcp",
    DestinationPort: 443,
  });
  const { text } = analysisCommand(question, "us-east-1");
  expect(text).toContain("--source eni-1");
  expect(text).toContain("--destination-ip 10.0.1.9");
  expect(text).toContain("delete-network-insights-path");
});

test("rules and routes that decide", () => {
  expect(
    rulesOf({
      RouteTableRoute: { DestinationCidr: "0.0.0.0/0", NatGatewayId: "nat-1" },
      AclRule: { RuleNumber: 32767, RuleAction: "deny", Egress: true, Protocol: "-1", Cidr: "0.0.0.0/0" },
      SecurityGroupRule: { Direction: "ingress", Protocol: "6", PortRange: { From: 443, To: 443 }, Cidr: "10.0.0.0/8" },
    }),
  ).toEqual([
    "Route 0.0.0.0/0 to nat-1",
    "Network ACL rule * (outbound) denies all traffic with 0.0.0.0/0",
    "Security group rule (inbound) allows tcp 443 with 10.0.0.0/8",
  ]);
  expect(rulesOf({})).toEqual([]);
});

test("an explanation names what it is about once", () => {
  const explanation = {
    ExplanationCode: "ENI_SG_RULES_MISMATCH",
    Direction: "ingress",
    Component: { Id: "eni-1" },
    NetworkInterface: { Id: "eni-1" },
    SecurityGroups: [{ Id: "sg-1", Name: "nodes" }],
  };
  expect(meaningOf(explanation)).toBe("No rule of the security groups allows the packet (inbound)");
  expect(placesOf(explanation)).toEqual(["eni-1", "nodes (sg-1)"]);
  expect(meaningOf({ ExplanationCode: "SOMETHING_NEW" })).toBe("SOMETHING_NEW");
  expect(idsOf({ Explanations: [explanation] })).toEqual(["eni-1"]);
});

test("the header of a packet", () => {
  const header = {
    SourceAddresses: ["10.0.0.7/32"],
    DestinationAddresses: ["10.0.1.9/32"],
    DestinationPortRanges: [{ From: 443, To: 443 }],
  };
  expect(headerText({ InboundHeader: header })).toBe("10.0.0.7/32 to 10.0.1.9/32:443");
  expect(headerText({})).toBe("");
});

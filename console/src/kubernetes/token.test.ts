import { expect, test } from "vitest";
import { createToken } from "./token";

test("a token is a presigned request for one cluster", async () => {
  const token = await createToken(
    {
      accessKeyId: "ASIAEXAMPLE",
      secretAccessKey: "secret",
      sessionToken: "a+/=",
      region: "eu-west-1",
      account: "111122223333",
      arn: "arn:aws:iam::111122223333:root",
    },
    "web",
    new Date("2026-11-30T12:00:00Z"),
  );
  expect(token).toMatch(/^k8s-aws-v1\.[\w-]+$/);
  const url = new URL(atob(token.slice("k8s-aws-v1.".length).replaceAll("-", "+").replaceAll("_", "/")));
  expect(url.host).toBe("sts.eu-west-1.amazonaws.com");
  expect(Object.fromEntries(url.searchParams)).toMatchObject({
    Action: "GetCallerIdentity",
    Version: "2011-06-15",
    "X-Amz-Date": "20261130T120000Z",
    "X-Amz-Expires": "60",
    "X-Amz-Credential": "ASIAEXAMPLE/20261130/eu-west-1/sts/aws4_request",
    "X-Amz-Security-Token": "a+/=",
    "X-Amz-SignedHeaders": "host;x-k8s-aws-id",
  });
});

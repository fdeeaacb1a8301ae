import { expect, test } from "vitest";
import { formatSize, imageType, pullCommands } from "./images";

test.each([
  [0, "0 B"],
  [999, "999 B"],
  [54_250_000, "54.25 MB"],
  [1_000_000_000, "1.00 GB"],
])("%i bytes are %s", (bytes, text) => {
  expect(formatSize(bytes)).toBe(text);
});

test("an index, an image and other artifacts", () => {
  expect(imageType({ imageManifestMediaType: "application/vnd.oci.image.index.v1+json" })).toBe("Image Index");
  expect(imageType({ artifactMediaType: "application/vnd.docker.container.image.v1+json" })).toBe("Image");
  expect(imageType({ artifactMediaType: "application/vnd.cncf.helm.config.v1+json" })).toBe("Other");
});

test("an image is pulled by its tag, or its digest", () => {
  const uri = "registry.example:5000/team/web";
  expect(pullCommands(uri, { imageTags: ["v1"] }, "eu-west-1").text).toContain(`docker pull ${uri}:v1`);
  expect(pullCommands(uri, { imageDigest: "sha256:ab" }, "eu-west-1").text).toContain(`docker pull ${uri}@sha256:ab`);
  expect(pullCommands(uri, {}, "eu-west-1").text).toContain("--password-stdin registry.example:5000\n");
});

// Images, as the container registry describes them.
import type { ImageDetail } from "@aws-sdk/client-ecr";
import { awsCommand, type Command, inTurn, piped, shellCommand } from "../../commands/command";

const units = ["B", "KB", "MB", "GB", "TB"];

/** FormatSize returns a size as AWS's console writes it, in units of 1000: "54.25 MB". */
export function formatSize(bytes: number): string {
  let size = bytes;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit++;
  }
  return unit === 0 ? `${bytes} B` : `${size.toFixed(2)} ${units[unit] ?? ""}`;
}

/** ImageType returns what kind of artifact an image is, by the type of its manifest. */
export function imageType({ imageManifestMediaType = "", artifactMediaType = "" }: ImageDetail): string {
  if (/manifest\.list|image\.index/.test(imageManifestMediaType)) return "Image Index";
  if (artifactMediaType === "" || /container\.image|image\.config/.test(artifactMediaType)) return "Image";
  return "Other";
}

/** PullCommands returns the commands that pull an image: by its first tag, or its digest where it has none. */
export function pullCommands(uri: string, image: ImageDetail, region: string): Command {
  const [tag] = image.imageTags ?? [];
  const name = tag === undefined ? `${uri}@${image.imageDigest ?? ""}` : `${uri}:${tag}`;
  const registry = uri.slice(0, uri.indexOf("/"));
  const login = ["docker", "login", "--username", "AWS", "--password-stdin", registry];
  return inTurn(
    piped(awsCommand("ecr", "get-login-password", {}, region), shellCommand("docker", login)),
    shellCommand("docker", ["docker", "pull", name]),
  );
}

import {
  BatchDeleteImageCommand,
  DescribeRepositoriesCommand,
  ECRClient,
  type ImageDetail,
  paginateDescribeImages,
} from "@aws-sdk/client-ecr";
import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { useParams } from "react-router";
import { useAws, useAwsChange, useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { Copyable } from "../../components/Copyable";
import { DeleteModal } from "../../components/DeleteModal";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { ShowCommand } from "../../components/ShowCommand";
import { Time } from "../../components/Time";
import { useSession } from "../../session/SessionProvider";
import { formatSize, imageType, pullCommands } from "./images";

const digestOf = (image: ImageDetail) => image.imageDigest ?? "";

const columns: Column<ImageDetail>[] = [
  {
    id: "tags",
    header: "Image tags",
    text: (i) => i.imageTags?.join(", ") ?? "",
    cell: (i) => i.imageTags?.join(", ") ?? "<untagged>",
    width: 260,
  },
  { id: "type", header: "Artifact type", text: imageType, width: 140 },
  {
    id: "pushed",
    header: "Pushed at",
    text: (i) => i.imagePushedAt?.toISOString() ?? "",
    cell: (i) => <Time at={i.imagePushedAt} />,
    width: 160,
  },
  {
    id: "size",
    header: "Size",
    text: (i) => formatSize(i.imageSizeInBytes ?? 0),
    compare: (a, b) => (a.imageSizeInBytes ?? 0) - (b.imageSizeInBytes ?? 0),
    width: 120,
  },
  {
    id: "digest",
    header: "Digest",
    text: digestOf,
    cell: (i) => <Copyable text={digestOf(i)} what="Digest" />,
    width: 460,
  },
  {
    id: "pulled",
    header: "Last pulled at",
    text: (i) => i.lastRecordedPullTime?.toISOString() ?? "",
    cell: (i) => <Time at={i.lastRecordedPullTime} />,
    width: 160,
  },
];

/** RepositoryPage lists the images of a repository, and says how to pull them. */
export default function RepositoryPage() {
  const { repository: repositoryName = "" } = useParams();
  const { session } = useSession();
  const input = { repositoryName };
  const described = useAws(ECRClient, DescribeRepositoriesCommand, { repositoryNames: [repositoryName] });
  const { data, error, refetch, isFetching } = useAwsPages(
    ECRClient,
    paginateDescribeImages,
    input,
    (page) => page.imageDetails,
  );
  const [selected, setSelected] = useState<ImageDetail[]>([]);
  const [deleting, setDeleting] = useState<string[]>();
  const remove = useAwsChange(ECRClient, BatchDeleteImageCommand, {
    attempt: () => `Delete images of ${repositoryName}`,
    quiet: true,
  });
  const uri = described.data?.repositories?.[0]?.repositoryUri;
  const [first] = selected;
  return (
    <>
      <ResourceTable
        variant="full-page"
        title="Images"
        nouns={["image", "images"]}
        description={uri ?? repositoryName}
        items={data}
        columns={columns}
        keyOf={digestOf}
        nameOf={digestOf}
        error={error ?? described.error}
        refresh={() => void refetch()}
        refreshing={isFetching}
        commands={[awsCommand("ecr", "describe-images", input, session.region)]}
        selection="multi"
        selected={selected}
        onSelect={setSelected}
        actions={
          <SpaceBetween direction="horizontal" size="xs">
            {uri !== undefined && first !== undefined && (
              <ShowCommand label="Pull" commands={[pullCommands(uri, first, session.region)]} />
            )}
            <Button disabled={first === undefined} onClick={() => setDeleting(selected.map(digestOf))}>
              Delete
            </Button>
          </SpaceBetween>
        }
      />
      {deleting !== undefined && (
        <DeleteModal
          what={deleting.length === 1 ? "image" : "images"}
          name={deleting.join(", ")}
          word="delete"
          onDismiss={() => setDeleting(undefined)}
          onDelete={async () => {
            const imageIds = deleting.map((imageDigest) => ({ imageDigest }));
            const { failures } = await remove.mutateAsync({ repositoryName, imageIds });
            const [failure] = failures ?? [];
            if (failure !== undefined) throw new Error(failure.failureReason ?? failure.failureCode);
            setSelected([]);
          }}
        >
          Pods that use an image fail to start where it is not cached.
        </DeleteModal>
      )}
    </>
  );
}

import { DeleteRepositoryCommand, ECRClient, paginateDescribeRepositories, type Repository } from "@aws-sdk/client-ecr";
import Button from "@cloudscape-design/components/button";
import { useState } from "react";
import { useAwsChange, useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { Copyable } from "../../components/Copyable";
import { DeleteModal } from "../../components/DeleteModal";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { Time } from "../../components/Time";
import { useSession } from "../../session/SessionProvider";

const nameOf = (repository: Repository) => repository.repositoryName ?? "";

const columns: Column<Repository>[] = [
  {
    id: "name",
    header: "Repository name",
    text: nameOf,
    cell: (r) => <AppLink to={`/repositories/${encodeURIComponent(nameOf(r))}`}>{nameOf(r)}</AppLink>,
    width: 300,
  },
  {
    id: "uri",
    header: "URI",
    text: (r) => r.repositoryUri ?? "",
    cell: (r) => <Copyable text={r.repositoryUri} what="URI" />,
    width: 460,
  },
  {
    id: "created",
    header: "Created at",
    text: (r) => r.createdAt?.toISOString() ?? "",
    cell: (r) => <Time at={r.createdAt} />,
    width: 160,
  },
  {
    id: "mutability",
    header: "Tag immutability",
    text: (r) => (r.imageTagMutability?.startsWith("IMMUTABLE") === true ? "Enabled" : "Disabled"),
    width: 160,
  },
  {
    id: "encryption",
    header: "Encryption type",
    text: (r) => (r.encryptionConfiguration?.encryptionType === "KMS" ? "AWS KMS" : "AES-256"),
    width: 160,
  },
];

/** RepositoriesPage lists the repositories of the registry. */
export default function RepositoriesPage() {
  const { session } = useSession();
  const { data, error, refetch, isFetching } = useAwsPages(
    ECRClient,
    paginateDescribeRepositories,
    {},
    (page) => page.repositories,
  );
  const [selected, setSelected] = useState<Repository[]>([]);
  const [deleting, setDeleting] = useState<string>();
  const remove = useAwsChange(ECRClient, DeleteRepositoryCommand, {
    attempt: (input) => `Delete repository ${input.repositoryName ?? ""}`,
    success: (input) => `Repository ${input.repositoryName ?? ""} was deleted.`,
    quiet: true,
  });
  const [first] = selected;
  return (
    <>
      <ResourceTable
        variant="full-page"
        title="Private repositories"
        nouns={["repository", "repositories"]}
        items={data}
        columns={columns}
        keyOf={(r) => r.repositoryArn ?? ""}
        nameOf={nameOf}
        error={error}
        refresh={() => void refetch()}
        refreshing={isFetching}
        commands={[awsCommand("ecr", "describe-repositories", {}, session.region)]}
        selection="single"
        selected={selected}
        onSelect={setSelected}
        actions={
          <Button
            disabled={first === undefined}
            onClick={() => setDeleting(first === undefined ? undefined : nameOf(first))}
          >
            Delete
          </Button>
        }
      />
      {deleting !== undefined && (
        <DeleteModal
          what="repository"
          name={deleting}
          word="delete"
          onDismiss={() => setDeleting(undefined)}
          onDelete={() => remove.mutateAsync({ repositoryName: deleting, force: true })}
        >
          The images of the repository are deleted with it.
        </DeleteModal>
      )}
    </>
  );
}

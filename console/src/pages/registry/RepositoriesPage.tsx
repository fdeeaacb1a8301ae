import { DeleteRepositoryCommand, ECRClient, paginateDescribeRepositories, type Repository } from "@aws-sdk/client-ecr";
import { useAwsChange, useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { Copyable } from "../../components/Copyable";
import { DeleteModal } from "../../components/DeleteModal";
import { ListPage } from "../../components/ListPage";
import type { Column } from "../../components/ResourceTable";
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
  const query = useAwsPages(ECRClient, paginateDescribeRepositories, {}, (page) => page.repositories);
  const remove = useAwsChange(ECRClient, DeleteRepositoryCommand, {
    attempt: (input) => `Delete repository ${input.repositoryName ?? ""}`,
    success: (input) => `Repository ${input.repositoryName ?? ""} was deleted.`,
    quiet: true,
  });
  return (
    <ListPage
      title="Private repositories"
      nouns={["repository", "repositories"]}
      query={query}
      columns={columns}
      keyOf={(r) => r.repositoryArn ?? ""}
      nameOf={nameOf}
      commands={[awsCommand("ecr", "describe-repositories", {}, session.region)]}
      deletion={(repository, onDismiss) => (
        <DeleteModal
          what="repository"
          name={nameOf(repository)}
          word="delete"
          onDismiss={onDismiss}
          onDelete={() => remove.mutateAsync({ repositoryName: repository.repositoryName, force: true })}
        >
          The images of the repository are deleted with it.
        </DeleteModal>
      )}
    />
  );
}

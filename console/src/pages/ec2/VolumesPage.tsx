import { awsCommand } from "../../commands/command";
import { ResourceTable } from "../../components/ResourceTable";
import { useSession } from "../../session/SessionProvider";
import { useVolumes, volumeColumns } from "./volumes";

/** VolumesPage lists the volumes of the region. */
export default function VolumesPage() {
  const { session } = useSession();
  const { data, error, refetch, isFetching } = useVolumes();
  return (
    <ResourceTable
      variant="full-page"
      title="Volumes"
      nouns={["volume", "volumes"]}
      items={data}
      columns={volumeColumns}
      keyOf={(v) => v.VolumeId ?? ""}
      nameOf={(v) => v.VolumeId ?? ""}
      error={error}
      refresh={() => void refetch()}
      refreshing={isFetching}
      commands={[awsCommand("ec2", "describe-volumes", {}, session.region)]}
    />
  );
}

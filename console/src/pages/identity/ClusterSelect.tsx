import type { Cluster } from "@aws-sdk/client-eks";
import Box from "@cloudscape-design/components/box";
import FormField from "@cloudscape-design/components/form-field";
import Select from "@cloudscape-design/components/select";
import { useSearchParams } from "react-router";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { useClusters } from "../clusters/clusters";

/** ClusterSelect chooses a cluster, which the address keeps, and shows something of it: of the first until then. */
export function ClusterSelect({ children }: { children: (cluster: Cluster) => React.ReactNode }) {
  const [query, setQuery] = useSearchParams();
  const { data, error, refetch } = useClusters();
  if (error !== null) return <ErrorAlert attempted="List clusters" error={error} retry={() => void refetch()} />;
  if (data === undefined) return <Loading what="clusters" />;
  const cluster = data.find(({ name }) => name === query.get("cluster")) ?? data[0];
  if (cluster === undefined) return <Box>There are no clusters in the region.</Box>;
  return (
    <>
      <FormField label="Cluster">
        <Select
          selectedOption={{ value: cluster.name, label: cluster.name }}
          options={data.map(({ name }) => ({ value: name, label: name }))}
          filteringType="auto"
          onChange={({ detail }) => setQuery({ cluster: detail.selectedOption.value ?? "" })}
        />
      </FormField>
      {children(cluster)}
    </>
  );
}

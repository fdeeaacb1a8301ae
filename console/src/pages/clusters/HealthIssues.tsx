import Box from "@cloudscape-design/components/box";
import Header from "@cloudscape-design/components/header";
import Table from "@cloudscape-design/components/table";

interface Issue {
  code?: string;
  message?: string;
  resourceIds?: string[];
}

/** HealthIssues lists what EKS says is wrong with a cluster, or with what belongs to it, and of which resources. */
export function HealthIssues({ title, issues }: { title: string; issues: Issue[] }) {
  return (
    <Table
      items={issues}
      enableKeyboardNavigation
      empty="No health issues"
      wrapLines
      ariaLabels={{ tableLabel: title }}
      header={
        <Header variant="h2" counter={`(${issues.length})`}>
          {title}
        </Header>
      }
      columnDefinitions={[
        { id: "code", header: "Issue type", cell: (i) => <b>{i.code}</b>, isRowHeader: true },
        { id: "message", header: "Description", cell: (i) => i.message },
        {
          id: "resources",
          header: "Affected resources",
          cell: (i) => i.resourceIds?.map((id) => <Box key={id}>{id}</Box>) ?? "-",
        },
      ]}
    />
  );
}

import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useEffect, useState } from "react";
import { isRouteErrorResponse, useRouteError } from "react-router";
import { describeError } from "../aws/errors";
import { AppLink } from "../components/AppLink";
import { Loading } from "../components/Loading";
import { isLostRequest, mayReload } from "./reload";

/** ErrorPage stands in for a page that failed, or is not there. */
export default function ErrorPage() {
  const error = useRouteError();
  const [reloads] = useState(() => isLostRequest(error) && mayReload(sessionStorage, Date.now()));
  useEffect(() => {
    if (reloads) location.reload();
  }, [reloads]);
  if (reloads) return <Loading what="page" />;
  if (isRouteErrorResponse(error) && error.status === 404) return <NotFound />;
  return (
    <ContentLayout header={<Header variant="h1">Something went wrong</Header>}>
      <Alert
        type="error"
        header="This page failed"
        action={<Button onClick={() => location.reload()}>Reload</Button>}
      >
        {describeError(error).message}
      </Alert>
    </ContentLayout>
  );
}

export function NotFound() {
  return (
    <ContentLayout header={<Header variant="h1">Page not found</Header>}>
      <SpaceBetween size="m">
        <Box variant="p">The console has no page at this address.</Box>
        <AppLink to="/clusters">Go to clusters</AppLink>
      </SpaceBetween>
    </ContentLayout>
  );
}

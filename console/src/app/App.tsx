import { I18nProvider } from "@cloudscape-design/components/i18n";
import messages from "@cloudscape-design/components/i18n/messages/all.en";
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { useMemo } from "react";
import { createBrowserRouter, type RouteObject, RouterProvider } from "react-router";
import { isSignedOut } from "../aws/errors";
import { Loading } from "../components/Loading";
import { SessionGate, SessionProvider, useSessionState } from "../session/SessionProvider";
import { areas } from "./areas";
import ErrorPage, { NotFound } from "./ErrorPage";
import { NotificationsProvider } from "./notifications";
import { isLostRequest } from "./reload";
import Shell from "./Shell";

const routes: RouteObject[] = [
  {
    element: <Shell />,
    hydrateFallbackElement: <Loading what="page" />,
    errorElement: (
      <Shell>
        <ErrorPage />
      </Shell>
    ),
    children: [
      {
        errorElement: <ErrorPage />,
        children: [...areas.flatMap((area) => area.routes), { path: "*", element: <NotFound /> }],
      },
    ],
  },
];

/** The router begins where somebody signs in, once the one-time code is gone from the address. */
let router: ReturnType<typeof createBrowserRouter> | undefined;

function Pages() {
  router ??= createBrowserRouter(routes, { basename: "/console" });
  return <RouterProvider router={router} />;
}

export default function App() {
  return (
    <I18nProvider locale="en" messages={[messages]}>
      <SessionProvider>
        <Queries>
          <SessionGate>
            <NotificationsProvider>
              <Pages />
            </NotificationsProvider>
          </SessionGate>
        </Queries>
      </SessionProvider>
    </I18nProvider>
  );
}

/** Queries has the answers of AWS and Kubernetes. What is of one session is gone with it. */
function Queries({ children }: { children: React.ReactNode }) {
  const { session, expire } = useSessionState();
  const identity = session?.accessKeyId;
  const client = useMemo(() => {
    const onError = (error: unknown) => {
      if (identity !== undefined && isSignedOut(error)) expire(identity);
    };
    return new QueryClient({
      queryCache: new QueryCache({ onError }),
      mutationCache: new MutationCache({ onError }),
      defaultOptions: {
        queries: {
          retry: (failures, error) => isLostRequest(error) && failures < 10,
          retryDelay: 500,
          staleTime: 1000,
          refetchOnWindowFocus: true,
        },
      },
    });
  }, [identity, expire]);
  return <QueryClientProvider client={client}>{children}</QueryClientProvider>;
}

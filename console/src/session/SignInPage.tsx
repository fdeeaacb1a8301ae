import Alert from "@cloudscape-design/components/alert";
import AppLayout from "@cloudscape-design/components/app-layout";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import CopyToClipboard from "@cloudscape-design/components/copy-to-clipboard";
import Form from "@cloudscape-design/components/form";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Tabs from "@cloudscape-design/components/tabs";
import { type SyntheticEvent, useEffect, useState } from "react";
import { regionName, regions } from "../aws/regions";
import { ErrorAlert } from "../components/ErrorAlert";
import { useSessionState } from "./SessionProvider";
import { assumeRole, defaultRegion, signIn } from "./signIn";

const sessionName = "console";

/** SignInPage takes an access key, or a role that its owner assumes, and says how to get a link. */
export default function SignInPage() {
  const { notice, begin } = useSessionState();
  const [accessKeyId, setAccessKeyId] = useState("");
  const [secretAccessKey, setSecret] = useState("");
  const [sessionToken, setToken] = useState("");
  const [region, setRegion] = useState(defaultRegion);
  const [role, setRole] = useState("");
  const [externalId, setExternalId] = useState("");
  const [method, setMethod] = useState("key");
  const [signing, setSigning] = useState(false);
  const [submitted, setSubmitted] = useState(false);
  const [error, setError] = useState<unknown>(null);

  useEffect(() => {
    document.title = "Sign in | Coracle";
  }, []);

  const required = (value: string) => (submitted && value.trim() === "" ? "This field is required." : undefined);
  const roleError = () => {
    if (required(role) !== undefined) return required(role);
    return submitted && !/^arn:aws:iam::\d{12}:role\/.+/.test(role.trim())
      ? "Enter the ARN of a role: arn:aws:iam::111122223333:role/NAME."
      : undefined;
  };

  const submit = async (event: SyntheticEvent) => {
    event.preventDefault();
    setSubmitted(true);
    const key = {
      accessKeyId: accessKeyId.trim(),
      secretAccessKey: secretAccessKey.trim(),
      sessionToken: sessionToken.trim() === "" ? undefined : sessionToken.trim(),
      region,
    };
    if (key.accessKeyId === "" || key.secretAccessKey === "" || (method === "role" && role.trim() === "")) return;
    setSigning(true);
    setError(null);
    try {
      begin(
        method === "role"
          ? await assumeRole(key, role.trim(), sessionName, externalId.trim() || undefined)
          : await signIn(key),
      );
    } catch (refused) {
      setError(refused);
      setSigning(false);
    }
  };

  const keyFields = (
    <SpaceBetween size="m">
      <FormField label="Access key ID" errorText={required(accessKeyId)}>
        <Input value={accessKeyId} onChange={({ detail }) => setAccessKeyId(detail.value)} autoComplete={false} />
      </FormField>
      <FormField label="Secret access key" errorText={required(secretAccessKey)}>
        <Input
          type="password"
          value={secretAccessKey}
          onChange={({ detail }) => setSecret(detail.value)}
          autoComplete={false}
        />
      </FormField>
      <FormField
        label={
          <>
            Session token <i>- optional</i>
          </>
        }
        description="Temporary credentials have one."
      >
        <Input
          type="password"
          value={sessionToken}
          onChange={({ detail }) => setToken(detail.value)}
          autoComplete={false}
        />
      </FormField>
      <FormField label="Region">
        <Select
          filteringType="auto"
          selectedOption={{ value: region, label: regionName(region) }}
          options={regions.map(({ code, name }) => ({ value: code, label: name, description: code }))}
          onChange={({ detail }) => setRegion(detail.selectedOption.value ?? region)}
        />
      </FormField>
    </SpaceBetween>
  );
  const roleFields = (
    <SpaceBetween size="m">
      <FormField label="Role ARN" description="The role that the owner of the key assumes." errorText={roleError()}>
        <Input
          value={role}
          onChange={({ detail }) => setRole(detail.value)}
          placeholder="arn:aws:iam::111122223333:role/NAME"
        />
      </FormField>
      <FormField
        label={
          <>
            External ID <i>- optional</i>
          </>
        }
      >
        <Input value={externalId} onChange={({ detail }) => setExternalId(detail.value)} />
      </FormField>
    </SpaceBetween>
  );

  return (
    <AppLayout
      navigationHide
      toolsHide
      maxContentWidth={720}
      content={
        <ContentLayout
          header={
            <Header variant="h1" description="Amazon EKS on one machine: real clusters behind real AWS APIs.">
              Sign in to Coracle
            </Header>
          }
        >
          <SpaceBetween size="l">
            {notice !== null && <Alert type={notice.type}>{notice.text}</Alert>}
            <Container header={<Header variant="h2">With a link</Header>}>
              <SpaceBetween size="s">
                <Box variant="p">
                  Run this command on the machine of the daemon. It opens the console, signed in for the data directory,
                  or prints the link to open.
                </Box>
                <CopyToClipboard
                  variant="inline"
                  textToCopy="coracle console"
                  textToDisplay="coracle console"
                  copyButtonAriaLabel="Copy the command"
                  copySuccessText="Command copied"
                  copyErrorText="The command could not be copied"
                />
              </SpaceBetween>
            </Container>
            <form onSubmit={(event) => void submit(event)}>
              <Form
                actions={
                  <Button variant="primary" formAction="submit" loading={signing}>
                    Sign in
                  </Button>
                }
              >
                <SpaceBetween size="l">
                  {error !== null && <ErrorAlert attempted="Sign in" error={error} />}
                  <Container header={<Header variant="h2">With credentials</Header>}>
                    <Tabs
                      activeTabId={method}
                      onChange={({ detail }) => setMethod(detail.activeTabId)}
                      ariaLabel="Credentials"
                      tabs={[
                        { id: "key", label: "Access key", content: keyFields },
                        {
                          id: "role",
                          label: "Assume a role",
                          content: (
                            <SpaceBetween size="m">
                              {roleFields}
                              {keyFields}
                            </SpaceBetween>
                          ),
                        },
                      ]}
                    />
                  </Container>
                </SpaceBetween>
              </Form>
            </form>
            <Box variant="small" color="text-body-secondary">
              Credentials stay in this browser tab, and are forgotten when you sign out or close it.
            </Box>
          </SpaceBetween>
        </ContentLayout>
      }
    />
  );
}

import {
  type EvaluationResult,
  IAMClient,
  ListEntitiesForPolicyCommand,
  PutRolePolicyCommand,
  PutUserPolicyCommand,
  SimulatePrincipalPolicyCommand,
  type SimulatePrincipalPolicyCommandInput,
} from "@aws-sdk/client-iam";
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useAws, useAwsChange } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { Copyable } from "../../components/Copyable";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { CommandTabs, ShowCommand } from "../../components/ShowCommand";
import { Time } from "../../components/Time";
import { allowing, contextOf, type Denial, isPattern, policyNameOf, without } from "./events";
import { deciding, type GrantedPolicy, type Principal, principalAddress, principalOf, usePolicies } from "./policies";
import { describe, Document } from "./PolicyList";

/** DenialReason shows a denied call, what decided, and what to change. */
export function DenialReason({ denial }: { denial: Denial }) {
  const { record } = denial;
  const principal = principalOf(denial.principal);
  return (
    <SpaceBetween size="l">
      <Container header={<Header variant="h2">Denied call</Header>}>
        <SpaceBetween size="m">
          <KeyValuePairs
            columns={3}
            items={[
              { label: "Action", value: denial.action },
              { label: "Resource", value: denial.resource },
              { label: "Time", value: <Time at={denial.at} /> },
              { label: "Who", value: <Copyable text={denial.who} what="ARN" /> },
              {
                label: "Policies of",
                value:
                  principal === undefined ? (
                    "-"
                  ) : (
                    <AppLink to={principalAddress(principal)}>{`${principal.kind} ${principal.name}`}</AppLink>
                  ),
              },
              { label: "Source IP address", value: record.sourceIPAddress ?? "-" },
              { label: "User agent", value: record.userAgent ?? "-" },
              { label: "Request ID", value: record.requestID ?? "-" },
              {
                label: "Event",
                value: <AppLink to={`/event-history/${denial.id}`}>{record.eventName ?? denial.id}</AppLink>,
              },
            ]}
          />
          <Alert type="warning" header={record.errorCode}>
            {denial.message}
          </Alert>
        </SpaceBetween>
      </Container>
      {principal === undefined ? (
        <Alert type="info">
          The caller is no user or role of this account, so that no policies of its own can be simulated. The policy of
          the resource, or of the session, decides.
        </Alert>
      ) : (
        <Reason denial={denial} principal={principal} />
      )}
    </SpaceBetween>
  );
}

function Reason({ denial, principal }: { denial: Denial; principal: Principal }) {
  const asked: SimulatePrincipalPolicyCommandInput = {
    PolicySourceArn: denial.principal,
    ActionNames: [denial.action],
    ResourceArns: [denial.resource],
    ContextEntries: contextOf(denial.record),
  };
  const { data, error, refetch } = useAws(IAMClient, SimulatePrincipalPolicyCommand, asked, { poll: false });
  const policies = usePolicies(principal);
  const result = data?.EvaluationResults?.[0];
  return (
    <Container
      header={
        <Header
          variant="h2"
          description="The policies as they are now, evaluated by iam:SimulatePrincipalPolicy for the call."
          actions={<ShowCommand commands={[awsCommand("iam", "simulate-principal-policy", asked)]} />}
        >
          What decides
        </Header>
      }
    >
      <SpaceBetween size="m">
        {error !== null && <ErrorAlert attempted="Simulate the policies" error={error} retry={() => void refetch()} />}
        {policies.error !== null && <ErrorAlert attempted="Read the policies" error={policies.error} />}
        {result === undefined && error === null && <Loading what="the decision" />}
        {result !== undefined && policies.data !== undefined && (
          <Decided denial={denial} principal={principal} result={result} policies={policies.data} />
        )}
      </SpaceBetween>
    </Container>
  );
}

interface DecidedProps {
  denial: Denial;
  principal: Principal;
  result: EvaluationResult;
  policies: GrantedPolicy[];
}

function Decided(props: DecidedProps) {
  const { denial, result } = props;
  const missing = result.MissingContextValues ?? [];
  const boundary = result.PermissionsBoundaryDecisionDetail?.AllowedByPermissionsBoundary === false;
  return (
    <SpaceBetween size="m">
      {result.EvalDecision === "allowed" && <Allowed {...props} />}
      {result.EvalDecision === "explicitDeny" && <ExplicitDeny {...props} />}
      {result.EvalDecision === "implicitDeny" &&
        (boundary ? (
          <StatusIndicator type="stopped">
            The permissions boundary does not allow {denial.action}. Change the boundary, or choose another one.
          </StatusIndicator>
        ) : (
          <NoStatement {...props} />
        ))}
      {missing.length > 0 && (
        <Box variant="small">
          The policies ask for context values that the event does not have: {missing.join(", ")}.
        </Box>
      )}
    </SpaceBetween>
  );
}

function Allowed({ denial, result, policies }: DecidedProps) {
  return (
    <SpaceBetween size="s">
      <StatusIndicator type="success">The policies allow it now.</StatusIndicator>
      <Box>
        {denial.action === "sts:AssumeRole"
          ? "Where the call is still denied, the trust policy of the role does not let the caller in."
          : "They may have changed since. Where the call is still denied, a session policy or the policy of the " +
            "resource decides."}
      </Box>
      <Statements decisions={deciding(result, policies)} />
    </SpaceBetween>
  );
}

function ExplicitDeny({ result, policies, principal }: DecidedProps) {
  const decisions = deciding(result, policies);
  const changes = decisions.flatMap(({ policy, text }) => {
    // A managed policy may have the name that simulations give to an inline one.
    const sources = policies.filter(({ sourceId }) => sourceId === policy);
    const changed = sources.length === 1 && sources[0] !== undefined ? without(sources[0].document, text) : undefined;
    return changed === undefined ? [] : sources.map((source) => ({ source, changed }));
  });
  const commands = changes.flatMap(({ source, changed }) => [replacing(principal, source, changed)].flat());
  return (
    <SpaceBetween size="s">
      <StatusIndicator type="error">A statement denies it. No other statement can allow it.</StatusIndicator>
      <Statements decisions={decisions} />
      <Box variant="h3">What to change</Box>
      {commands.length === 0 ? (
        <Box>Change the statement so that it does not match this call, or remove it.</Box>
      ) : (
        <>
          <Box>Change the statement so that it does not match this call. This command removes it:</Box>
          {[...new Set(changes.map(({ source }) => source))].map((source) => (
            <AlsoOf key={`${source.sourceId} ${source.group ?? ""}`} policy={source} />
          ))}
          <CommandTabs commands={commands} />
        </>
      )}
    </SpaceBetween>
  );
}

/** AlsoOf warns of who else loses a statement that is removed from a policy. */
function AlsoOf({ policy: { type, name, group, arn } }: { policy: GrantedPolicy }) {
  const enabled = type === "Customer managed" && arn !== undefined;
  const entities = useAws(IAMClient, ListEntitiesForPolicyCommand, { PolicyArn: arn }, { poll: false, enabled }).data;
  const attached = [
    ...(entities?.PolicyRoles ?? []).map(({ RoleName = "" }) => `role ${RoleName}`),
    ...(entities?.PolicyUsers ?? []).map(({ UserName = "" }) => `user ${UserName}`),
    ...(entities?.PolicyGroups ?? []).map(({ GroupName = "" }) => `group ${GroupName}`),
  ];
  const all = entities?.IsTruncated === true ? [...attached, "others"] : attached;
  if (group !== undefined) {
    return <Alert type="warning">All members of the group {group} lose the statement.</Alert>;
  }
  if (all.length < 2) return null;
  return (
    <Alert type="warning">
      The policy {name} is attached to {all.join(", ")}: all of them lose the statement.
    </Alert>
  );
}

/** Replacing returns the command that gives a policy another text; none for one of AWS's. */
function replacing(principal: Principal, { type, name, group, arn }: GrantedPolicy, document: string) {
  const inline = { PolicyName: name, PolicyDocument: document };
  if (type === "Customer managed") {
    const version = { PolicyArn: arn, PolicyDocument: document, SetAsDefault: true };
    return [awsCommand("iam", "create-policy-version", version)];
  }
  if (type === "AWS managed") return [];
  if (group !== undefined) return [awsCommand("iam", "put-group-policy", { GroupName: group, ...inline })];
  return [putting(principal, name, document)];
}

/** Putting returns the command that gives a principal an inline policy. */
function putting({ kind, name }: Principal, PolicyName: string, PolicyDocument: string) {
  const of = kind === "role" ? { RoleName: name } : { UserName: name };
  return awsCommand("iam", `put-${kind}-policy`, { ...of, PolicyName, PolicyDocument });
}

function NoStatement({ denial, principal, policies }: DecidedProps) {
  const document = allowing(denial);
  const policyName = policyNameOf(
    denial,
    policies.filter(({ type }) => type === "Customer inline").map(({ name }) => name),
  );
  const options = {
    attempt: () => `Add the policy ${policyName}`,
    success: () => `The ${principal.kind} ${principal.name} has the policy ${policyName} now.`,
  };
  const putRole = useAwsChange(IAMClient, PutRolePolicyCommand, options);
  const putUser = useAwsChange(IAMClient, PutUserPolicyCommand, options);
  const add = () => {
    const policy = { PolicyName: policyName, PolicyDocument: document };
    if (principal.kind === "role") putRole.mutate({ RoleName: principal.name, ...policy });
    else putUser.mutate({ UserName: principal.name, ...policy });
  };
  return (
    <SpaceBetween size="s">
      <StatusIndicator type="stopped">No statement allows {denial.action}.</StatusIndicator>
      <Box>
        {policies.length === 0
          ? `The ${principal.kind} ${principal.name} has no policies.`
          : `These policies of the ${principal.kind} ${principal.name} were looked at:`}
      </Box>
      <div>
        {policies.map((policy) => (
          <ExpandableSection
            key={`${policy.sourceId} ${policy.group ?? ""}`}
            headerText={policy.name}
            headerDescription={describe(policy)}
          >
            <Document label={policy.name} text={policy.document} />
          </ExpandableSection>
        ))}
      </div>
      <Box variant="h3">What to change</Box>
      {isPattern(denial) ? (
        <>
          <Alert type="warning">
            This policy allows more than the call: what is denied names no single resource, or the caller has named a
            pattern. Write the resources that are meant into it before you add it.
          </Alert>
          <Document label="A policy that allows more" text={document} />
        </>
      ) : (
        <>
          <Box>If the call is to be allowed, this policy allows it, and nothing else:</Box>
          <Document label="The policy to add" text={document} />
          <CommandTabs commands={[putting(principal, policyName, document)]} />
          <Button onClick={add} loading={putRole.isPending || putUser.isPending} loadingText="Adding the policy">
            Add the policy to the {principal.kind}
          </Button>
        </>
      )}
    </SpaceBetween>
  );
}

function Statements({ decisions }: { decisions: { policy: string; text: string }[] }) {
  return (
    <>
      {decisions.map(({ policy, text }, i) => (
        <div key={i}>
          <Box variant="awsui-key-label">{policy}</Box>
          {text !== "" && <Document label={`Statement of ${policy}`} text={text} />}
        </div>
      ))}
    </>
  );
}

// Queries about the control plane logs of clusters, as articles about EKS ask them: those of docs/logs-insights.md.

export interface Sample {
  title: string;
  query: string;
}

const audit = "filter @logStream like /^kube-apiserver-audit/";

export const samples: Sample[] = [
  {
    title: "Who changed the DaemonSet aws-node",
    query: `${audit}
| fields @timestamp, user.username, userAgent, verb, responseStatus.code
| filter objectRef.name == 'aws-node' and objectRef.resource == 'daemonsets' and verb == 'patch'
| sort @timestamp asc`,
  },
  {
    title: "What aws-auth said after each change",
    query: `${audit}
| filter objectRef.resource = 'configmaps' and objectRef.name = 'aws-auth' and verb in ['create', 'update', 'patch']
| fields @timestamp, user.username, requestObject.data.mapRoles
| sort @timestamp asc`,
  },
  {
    title: "What was refused, and why",
    query: `${audit} and responseStatus.code >= 400
| stats count(*) as times, latest(responseStatus.message) as why by user.username, verb, objectRef.resource
| sort times desc
| limit 20`,
  },
  {
    title: "Changes by people, newest first",
    query: `${audit}
| filter verb in ['create', 'update', 'patch', 'delete'] and ispresent(user.extra.arn.0)
| fields @timestamp, user.extra.arn.0, verb, objectRef.namespace, objectRef.resource, objectRef.name
| sort @timestamp desc
| limit 100`,
  },
  {
    title: "Requests of each client over time",
    query: `${audit}
| stats count(*) as requests by user.username, bin(1m)`,
  },
  {
    title: "Requests by verb and resource",
    query: `${audit}
| stats count(*) as requests by verb, objectRef.resource
| sort requests desc
| limit 20`,
  },
  {
    title: "Who logged in, from the authenticator",
    query: `filter @logStream like /^authenticator/
| fields @timestamp, @message
| sort @timestamp desc
| limit 100`,
  },
  {
    title: "What components log that they did not log yesterday",
    query: `filter @logStream not like /audit/
| pattern @message
| diff previousDay
| filter @diffDescription = 'New'`,
  },
];

// The request that the form of a new cluster makes, and what is the same for other tools.
import type { CreateClusterRequest, LogType } from "@aws-sdk/client-eks";
import { awsCommand, cloudFormationResource, type Command, yamlDocument } from "../../../commands/command";

/** What the form holds. */
export interface Form {
  name: string;
  version: string;
  roleArn: string;
  subnetIds: string[];
  securityGroupIds: string[];
  publicAccess: boolean;
  privateAccess: boolean;
  publicAccessCidrs: string[];
  authenticationMode: "API" | "API_AND_CONFIG_MAP";
  creatorIsAdmin: boolean;
  deletionProtection: boolean;
  logTypes: LogType[];
  tags: Record<string, string>;
}

/** The form as AWS's console opens it. */
export const emptyForm: Form = {
  name: "",
  version: "",
  roleArn: "",
  subnetIds: [],
  securityGroupIds: [],
  publicAccess: true,
  privateAccess: true,
  publicAccessCidrs: ["0.0.0.0/0"],
  authenticationMode: "API_AND_CONFIG_MAP",
  creatorIsAdmin: true,
  deletionProtection: false,
  logTypes: [],
  tags: {},
};

/** The members of a form that can be wrong. */
export type Problems = Partial<Record<keyof Form, string>>;

const namePattern = /^[0-9A-Za-z][A-Za-z0-9_-]*$/;
const cidrPattern = /^(\d{1,3}\.){3}\d{1,3}\/\d{1,2}$|^[0-9a-fA-F:]+\/\d{1,3}$/;

/** ProblemsOf says what is wrong with a form, before EKS does. */
export function problemsOf(form: Form): Problems {
  const problems: Problems = {};
  if (form.name === "") problems.name = "Enter a name.";
  else if (form.name.length > 100 || !namePattern.test(form.name)) {
    problems.name = "Use up to 100 letters, digits, hyphens and underscores; begin with a letter or a digit.";
  }
  if (form.version === "") problems.version = "Choose a version.";
  if (form.roleArn === "") problems.roleArn = "Choose a role.";
  if (form.subnetIds.length < 2) problems.subnetIds = "Choose subnets in at least two Availability Zones.";
  if (!form.publicAccess && !form.privateAccess) problems.publicAccess = "Allow public or private access.";
  const bad = form.publicAccessCidrs.find((cidr) => !cidrPattern.test(cidr));
  if (form.publicAccess && bad !== undefined) problems.publicAccessCidrs = `${bad} is no CIDR block.`;
  return problems;
}

/** RequestOf returns the request of CreateCluster. */
export function requestOf(form: Form): CreateClusterRequest {
  return {
    name: form.name,
    version: form.version,
    roleArn: form.roleArn,
    resourcesVpcConfig: {
      subnetIds: form.subnetIds,
      securityGroupIds: form.securityGroupIds.length > 0 ? form.securityGroupIds : undefined,
      endpointPublicAccess: form.publicAccess,
      endpointPrivateAccess: form.privateAccess,
      publicAccessCidrs: form.publicAccess ? form.publicAccessCidrs : undefined,
    },
    accessConfig: {
      authenticationMode: form.authenticationMode,
      bootstrapClusterCreatorAdminPermissions: form.creatorIsAdmin,
    },
    logging: form.logTypes.length > 0 ? { clusterLogging: [{ types: form.logTypes, enabled: true }] } : undefined,
    deletionProtection: form.deletionProtection ? true : undefined,
    tags: Object.keys(form.tags).length > 0 ? form.tags : undefined,
  };
}

/** CommandsOf returns what makes the same cluster elsewhere. Zones are those of the subnets. */
export function commandsOf(form: Form, region: string, zones: Map<string, string>): Command[] {
  const request = requestOf(form);
  const vpc = request.resourcesVpcConfig;
  return [
    awsCommand("eks", "create-cluster", request, region),
    yamlDocument("eksctl", eksctlConfig(form, region, zones)),
    cloudFormationResource("Cluster", "AWS::EKS::Cluster", {
      Name: form.name,
      Version: form.version,
      RoleArn: form.roleArn,
      ResourcesVpcConfig: {
        SubnetIds: form.subnetIds,
        SecurityGroupIds: vpc?.securityGroupIds,
        EndpointPublicAccess: form.publicAccess,
        EndpointPrivateAccess: form.privateAccess,
        PublicAccessCidrs: vpc?.publicAccessCidrs,
      },
      AccessConfig: {
        AuthenticationMode: form.authenticationMode,
        BootstrapClusterCreatorAdminPermissions: form.creatorIsAdmin,
      },
      Logging:
        form.logTypes.length > 0
          ? { ClusterLogging: { EnabledTypes: form.logTypes.map((Type) => ({ Type })) } }
          : undefined,
      DeletionProtection: request.deletionProtection,
      Tags:
        request.tags === undefined
          ? undefined
          : Object.entries(request.tags).map(([Key, Value]) => ({ Key, Value })),
    }),
  ];
}

/** EksctlConfig returns the configuration file of eksctl. https://schema.eksctl.io */
function eksctlConfig(form: Form, region: string, zones: Map<string, string>): object {
  const subnets = Object.fromEntries(form.subnetIds.map((id) => [zones.get(id) ?? id, { id }]));
  return {
    apiVersion: "eksctl.io/v1alpha5",
    kind: "ClusterConfig",
    metadata: {
      name: form.name,
      region,
      version: form.version,
      tags: Object.keys(form.tags).length > 0 ? form.tags : undefined,
    },
    iam: { serviceRoleARN: form.roleArn },
    vpc: {
      subnets: { public: subnets },
      clusterEndpoints: { publicAccess: form.publicAccess, privateAccess: form.privateAccess },
      publicAccessCIDRs: form.publicAccess ? form.publicAccessCidrs : undefined,
      controlPlaneSecurityGroupIDs: form.securityGroupIds.length > 0 ? form.securityGroupIds : undefined,
    },
    accessConfig: {
      authenticationMode: form.authenticationMode,
      bootstrapClusterCreatorAdminPermissions: form.creatorIsAdmin,
    },
    cloudWatch: form.logTypes.length > 0 ? { clusterLogging: { enableTypes: form.logTypes } } : undefined,
  };
}

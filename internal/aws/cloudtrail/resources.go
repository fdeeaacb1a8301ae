package cloudtrail

import (
	"regexp"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// maxResources is the number of resources that an event names.
const maxResources = 20

// resource is a resource that a request was about, as records name it.
type resource struct {
	ARN       string `json:"ARN"`
	AccountID string `json:"accountId,omitempty"`
	Type      string `json:"type,omitempty"`
}

// named is the type and the name by which LookupEvents finds a resource.
type named [2]string

// resourceTypes are the types of resources by the service and the kind in their ARNs.
// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/view-cloudtrail-events-supported-resource-types.html
var resourceTypes = map[string]string{
	"acm:certificate":                    "AWS::ACM::Certificate",
	"autoscaling:autoScalingGroup":       "AWS::AutoScaling::AutoScalingGroup",
	"autoscaling:launchConfiguration":    "AWS::AutoScaling::LaunchConfiguration",
	"cloudformation:stack":               "AWS::CloudFormation::Stack",
	"ec2:elastic-ip":                     "AWS::EC2::EIP",
	"ec2:image":                          "AWS::EC2::Ami",
	"ec2:instance":                       "AWS::EC2::Instance",
	"ec2:internet-gateway":               "AWS::EC2::InternetGateway",
	"ec2:key-pair":                       "AWS::EC2::KeyPair",
	"ec2:launch-template":                "AWS::EC2::LaunchTemplate",
	"ec2:natgateway":                     "AWS::EC2::NatGateway",
	"ec2:network-acl":                    "AWS::EC2::NetworkAcl",
	"ec2:network-interface":              "AWS::EC2::NetworkInterface",
	"ec2:route-table":                    "AWS::EC2::RouteTable",
	"ec2:security-group":                 "AWS::EC2::SecurityGroup",
	"ec2:snapshot":                       "AWS::EC2::Snapshot",
	"ec2:subnet":                         "AWS::EC2::Subnet",
	"ec2:volume":                         "AWS::EC2::Volume",
	"ec2:vpc":                            "AWS::EC2::VPC",
	"ec2:vpc-endpoint":                   "AWS::EC2::VPCEndpoint",
	"ecr:repository":                     "AWS::ECR::Repository",
	"eks:access-entry":                   "AWS::EKS::AccessEntry",
	"eks:addon":                          "AWS::EKS::Addon",
	"eks:cluster":                        "AWS::EKS::Cluster",
	"eks:fargateprofile":                 "AWS::EKS::FargateProfile",
	"eks:nodegroup":                      "AWS::EKS::Nodegroup",
	"eks:podidentityassociation":         "AWS::EKS::PodIdentityAssociation",
	"elasticfilesystem:access-point":     "AWS::EFS::AccessPoint",
	"elasticfilesystem:file-system":      "AWS::EFS::FileSystem",
	"elasticloadbalancing:listener":      "AWS::ElasticLoadBalancingV2::Listener",
	"elasticloadbalancing:listener-rule": "AWS::ElasticLoadBalancingV2::ListenerRule",
	"elasticloadbalancing:loadbalancer":  "AWS::ElasticLoadBalancingV2::LoadBalancer",
	"elasticloadbalancing:targetgroup":   "AWS::ElasticLoadBalancingV2::TargetGroup",
	"iam:group":                          "AWS::IAM::Group",
	"iam:instance-profile":               "AWS::IAM::InstanceProfile",
	"iam:oidc-provider":                  "AWS::IAM::OIDCProvider",
	"iam:policy":                         "AWS::IAM::Policy",
	"iam:role":                           "AWS::IAM::Role",
	"iam:user":                           "AWS::IAM::User",
	"kms:alias":                          "AWS::KMS::Alias",
	"kms:key":                            "AWS::KMS::Key",
	"logs:log-group":                     "AWS::Logs::LogGroup",
	"ssm:parameter":                      "AWS::SSM::Parameter",
}

// ec2Types are the types of resources of EC2 by the beginning of their IDs.
var ec2Types = map[string]string{
	"acl": "ec2:network-acl", "ami": "ec2:image", "eipalloc": "ec2:elastic-ip", "eni": "ec2:network-interface",
	"i": "ec2:instance", "igw": "ec2:internet-gateway", "lt": "ec2:launch-template", "nat": "ec2:natgateway",
	"rtb": "ec2:route-table", "sg": "ec2:security-group", "snap": "ec2:snapshot", "subnet": "ec2:subnet",
	"vol": "ec2:volume", "vpc": "ec2:vpc", "vpce": "ec2:vpc-endpoint",
}

// ec2ID matches the IDs of resources of EC2 in JSON.
var ec2ID = regexp.MustCompile(`"([a-z]+)-[0-9a-f]{8,17}"`)

// describeARN returns the type of the resource that has an ARN, the name that LookupEvents finds it by, and its
// account. The type is empty for a resource of no known type.
func describeARN(arn string) (kind, name, account string) {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" {
		return "", "", ""
	}
	service, account := parts[2], parts[4]
	segments := strings.FieldsFunc(parts[5], func(r rune) bool { return r == '/' || r == ':' })
	if len(segments) < 2 {
		return "", "", account
	}
	kind, name = resourceTypes[service+":"+segments[0]], segments[len(segments)-1]
	_, rest, _ := strings.Cut(parts[5], segments[0])
	switch rest = rest[1:]; {
	case service == "eks" && segments[0] != "cluster" && len(segments) > 2:
		name = segments[2]
	case service == "kms", service == "elasticloadbalancing", service == "acm":
		name = arn
	case service == "cloudformation":
		name = segments[1]
	case service == "logs":
		name, _, _ = strings.Cut(rest, ":")
	case service == "ssm", service == "ecr":
		name = rest
	}
	return kind, name, account
}

// resourcesOf returns the resources that a request was authorized for, and the names of those and of the EC2 resources
// in parts of its record.
func resourcesOf(a *wire.Answered, parts ...[]byte) (all []resource, names []named) {
	add := func(n named) {
		if n[0] != "" && len(names) < maxResources && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	for _, t := range a.Targets {
		arn := strings.TrimSuffix(t.Resource, ":*") // of log groups
		if !strings.HasPrefix(arn, "arn:") || strings.ContainsAny(arn, "*?") || t.Named != "" {
			continue
		}
		kind, name, account := describeARN(arn)
		r := resource{ARN: arn, AccountID: account, Type: kind}
		if len(all) < maxResources && !slices.Contains(all, r) {
			all = append(all, r)
		}
		add(named{kind, name})
	}
	for _, part := range parts {
		for _, found := range ec2ID.FindAllSubmatch(part[:min(len(part), 16<<10)], maxResources) {
			id := string(found[0][1 : len(found[0])-1])
			add(named{resourceTypes[ec2Types[string(found[1])]], id})
		}
	}
	return all, names
}

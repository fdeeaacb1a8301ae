package managed_test

import (
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/iam/managed"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
)

func TestEveryDocumentParses(t *testing.T) {
	t.Parallel()
	for _, p := range managed.All() {
		if _, err := policy.Parse(policy.Identity, p.Document); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if got, ok := managed.Get(p.ARN); !ok || got != p {
			t.Errorf("%s is not found by its ARN %s", p.Name, p.ARN)
		}
		if p.Description == "" || p.ARN != "arn:aws:iam::aws:policy"+p.Path+p.Name || !strings.HasPrefix(p.ID,
			"ANPA") || len(p.ID) != 21 {
			t.Errorf("%+v", p)
		}
	}
}

func TestWhatPoliciesAllow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy, action, resource string
		keys                     policy.Context
		want                     bool
	}{
		{"AdministratorAccess", "eks:DeleteCluster", "*", nil, true},
		{"ReadOnlyAccess", "eks:DescribeCluster", "*", nil, true},
		{"ReadOnlyAccess", "eks:DeleteCluster", "*", nil, false},
		{"PowerUserAccess", "eks:CreateCluster", "*", nil, true},
		{"PowerUserAccess", "iam:CreateUser", "*", nil, false},
		{"AmazonEKSClusterPolicy", "ec2:DescribeInstances", "*", nil, true},
		{"AmazonEKSClusterPolicy", "iam:CreateServiceLinkedRole", "*",
			policy.Context{"iam:AWSServiceName": {"eks.amazonaws.com"}}, false},
		{"AmazonEKSWorkerNodePolicy", "eks:DescribeCluster", "*", nil, true},
		{"AmazonEKS_CNI_Policy", "ec2:CreateTags", "arn:aws:ec2:us-east-1:111122223333:instance/i-1", nil, false},
		{"AmazonEKS_CNI_Policy", "ec2:AssignPrivateIpAddresses", "*", nil, true},
		{"AmazonEC2ContainerRegistryReadOnly", "ecr:PutImage", "*", nil, false},
		{"AmazonEC2ContainerRegistryReadOnly", "ecr:BatchGetImage", "*", nil, true},
		{"service-role/AmazonEBSCSIDriverPolicy", "ec2:DeleteVolume", "arn:aws:ec2:us-east-1:111122223333:volume/vol-1",
			nil, false},
		{"service-role/AmazonEBSCSIDriverPolicy", "ec2:DeleteVolume", "arn:aws:ec2:us-east-1:111122223333:volume/vol-1",
			policy.Context{"ec2:ResourceTag/CSIVolumeName": {"pv"}}, true},
		{"AmazonEBSCSIDriverPolicyV2", "ec2:AttachVolume", "arn:aws:ec2:us-east-1:111122223333:volume/vol-1", nil, false},
		{"AmazonEBSCSIDriverPolicyV2", "ec2:AttachVolume", "arn:aws:ec2:us-east-1:111122223333:volume/vol-1",
			policy.Context{"ec2:ResourceTag/ebs.csi.aws.com/cluster": {"true"}}, true},
		{"AmazonEBSCSIDriverPolicyV2", "ec2:DeleteSnapshot", "arn:aws:ec2:us-east-1::snapshot/snap-1",
			policy.Context{"ec2:ResourceTag/ebs.csi.aws.com/cluster": {"true"}}, true},
		{"service-role/AmazonEFSCSIDriverPolicy", "elasticfilesystem:TagResource", "*",
			policy.Context{"aws:RequestTag/efs.csi.aws.com/cluster": {"true"}}, false},
		{"service-role/AmazonEFSCSIDriverPolicy", "elasticfilesystem:TagResource", "*",
			policy.Context{"aws:RequestTag/efs.csi.aws.com/cluster": {"true"},
				"elasticfilesystem:CreateAction": {"CreateAccessPoint"}}, true},
		{"AmazonElasticFileSystemFullAccess", "elasticfilesystem:DeleteFileSystem", "*", nil, true},
		{"AmazonElasticFileSystemReadOnlyAccess", "elasticfilesystem:DescribeFileSystems", "*", nil, true},
		{"AmazonElasticFileSystemReadOnlyAccess", "elasticfilesystem:DeleteFileSystem", "*", nil, false},
		{"AmazonElasticFileSystemClientReadWriteAccess", "elasticfilesystem:ClientWrite", "*", nil, true},
		{"AmazonElasticFileSystemClientReadWriteAccess", "elasticfilesystem:ClientRootAccess", "*", nil, false},
		{"CloudWatchLogsReadOnlyAccess", "logs:StartQuery",
			"arn:aws:logs:us-east-1:111122223333:log-group:g:log-stream:", nil, true},
		{"CloudWatchLogsReadOnlyAccess", "logs:PutLogEvents",
			"arn:aws:logs:us-east-1:111122223333:log-group:g:log-stream:s", nil, false},
		{"CloudWatchLogsFullAccess", "logs:PutLogEvents",
			"arn:aws:logs:us-east-1:111122223333:log-group:g:log-stream:s", nil, true},
		{"aws-service-role/AmazonEKSServiceRolePolicy", "logs:CreateLogGroup",
			"arn:aws:logs:us-east-1:111122223333:log-group:/aws/eks/c/cluster:log-stream:", nil, true},
		{"aws-service-role/AmazonEKSServiceRolePolicy", "logs:CreateLogStream",
			"arn:aws:logs:us-east-1:111122223333:log-group:/aws/eks/c/cluster:log-stream:s", nil, true},
		{"aws-service-role/AmazonEKSServiceRolePolicy", "logs:PutLogEvents",
			"arn:aws:logs:us-east-1:111122223333:log-group:/aws/eks/c/cluster:log-stream:s", nil, true},
		{"aws-service-role/AmazonEKSServiceRolePolicy", "logs:PutLogEvents",
			"arn:aws:logs:us-east-1:111122223333:log-group:/aws/lambda/f:log-stream:s", nil, false},
		{"aws-service-role/AmazonEKSServiceRolePolicy", "ec2:DeleteSecurityGroup",
			"arn:aws:ec2:us-east-1:111122223333:security-group/sg-1",
			policy.Context{"ec2:ResourceTag/Name": {"eks-cluster-sg-x-1"}}, true},
		{"aws-service-role/AmazonEKSServiceRolePolicy", "ec2:DeleteSecurityGroup",
			"arn:aws:ec2:us-east-1:111122223333:security-group/sg-1", nil, false},
	} {
		p, ok := managed.Get("arn:aws:iam::aws:policy/" + test.policy)
		if !ok {
			t.Errorf("%s is missing", test.policy)
			continue
		}
		r := &policy.Request{Action: test.action, Resource: test.resource,
			Principal: policy.Principal{Type: policy.User}, Keys: test.keys}
		if got, err := policy.Allows(r, []policy.Source{{Document: p.Compiled()}}); err != nil || got != test.want {
			t.Errorf("%s allows %s on %s: %v, want %v: %v", test.policy, test.action, test.resource, got, test.want,
				err)
		}
	}
}

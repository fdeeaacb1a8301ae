// Package eksctl runs eksctl, unmodified, from the first cluster to nothing left.
//
// The recordings below testdata have what each command of eksctl sent to AWS's services, and the members and statuses
// of the answers. The tests send the same requests again and compare the answers. That takes a fraction of the time of
// eksctl, which sleeps mostly. The tests run eksctl itself where CORACLE_TEST is "all" and eksctl is in the path. With
// eksctl in the path,
//
//	go test -tags crashpoints ./test/eksctl -record -timeout 2h
//
// makes the recordings anew. A recording refers to nothing in the others, so -run may select some commands, with those
// that they need:
//
//	go test -tags crashpoints ./test/eksctl -record -run 'TestEksctl$/^(create-cluster|get-addon|delete-cluster)$'
//
// What that records of a command late in the life, as of the cluster's deletion, is not what the whole life needs:
// restore it.
package eksctl

import (
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

var record = flag.Bool("record", false, "run eksctl and record what it sends")

// step is a command of eksctl, or of aws for what eksctl needs.
type step struct {
	name, command string
	says          string // part of what it prints
}

const role = "arn:aws:iam::111122223333:role/operator"

// steps are the commands of a cluster's life, each after the one before it.
var steps = []step{
	{"create-cluster", "eksctl create cluster -f testdata/cluster.yaml", "is ready"},
	{"create-role",
		"aws iam create-role --role-name operator --assume-role-policy-document file://testdata/trust.json",
		role},
	{"create-key", "aws kms create-key", "KeyId"},
	{"get-cluster", "eksctl get cluster", "ironman-2022"},
	{"get-nodegroup", "eksctl get nodegroup --cluster ironman-2022", "managed"},
	{"get-addon", "eksctl get addon --cluster ironman-2022", "vpc-cni"},
	{"get-accessentry", "eksctl get accessentry --cluster ironman-2022", "arn:aws:iam::111122223333:"},
	{"get-iamserviceaccount", "eksctl get iamserviceaccount --cluster ironman-2022", "s3-reader"},

	{"create-nodegroup", "eksctl create nodegroup --cluster ironman-2022 --name demo-ng --nodes 1 --managed=false",
		"created 1 nodegroup(s)"},
	{"scale-managed-nodegroup", "eksctl scale nodegroup --cluster ironman-2022 --name managed " +
		"--nodes 1 --nodes-min 1 --wait",
		""},
	{"scale-nodegroup", "eksctl scale nodegroup --cluster ironman-2022 --name own --nodes 2 --nodes-max 3",
		"initiated scaling"},
	{"set-labels", "eksctl set labels --cluster ironman-2022 --nodegroup managed --labels team=blue", "done"},
	{"get-labels", "eksctl get labels --cluster ironman-2022 --nodegroup managed", "team=blue"},
	{"update-nodegroup", "eksctl update nodegroup -f testdata/update.yaml", ""},
	{"drain-nodegroup", "eksctl drain nodegroup --cluster ironman-2022 --name demo-ng", "drained"},
	{"delete-nodegroup", "eksctl delete nodegroup --cluster ironman-2022 --name demo-ng --wait",
		"deleted 1 nodegroup(s)"},

	{"create-iamserviceaccount",
		"eksctl create iamserviceaccount --cluster ironman-2022 --name s3 --namespace default " +
			"--attach-policy-arn arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryReadOnly --approve",
		`created serviceaccount "default/s3"`},
	{"update-iamserviceaccount",
		"eksctl update iamserviceaccount --cluster ironman-2022 --name s3 --namespace default " +
			"--attach-policy-arn arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy --approve", ""},
	{"delete-iamserviceaccount",
		"eksctl delete iamserviceaccount --cluster ironman-2022 --name s3 --namespace default --wait",
		`deleted serviceaccount "default/s3"`},

	{"create-accessentry", "eksctl create accessentry --cluster ironman-2022 --principal-arn " + role +
		" --kubernetes-groups viewers", ""},
	{"get-accessentry-of-role", "eksctl get accessentry --cluster ironman-2022 --principal-arn " + role, "operator"},
	{"delete-accessentry", "eksctl delete accessentry --cluster ironman-2022 --principal-arn " + role, ""},

	{"create-iamidentitymapping", "eksctl create iamidentitymapping --cluster ironman-2022 --arn " + role +
		" --group viewers --username operator", ""},
	{"get-iamidentitymapping", "eksctl get iamidentitymapping --cluster ironman-2022", "operator"},
	{"delete-iamidentitymapping", "eksctl delete iamidentitymapping --cluster ironman-2022 --arn " + role, ""},

	{"delete-addon", "eksctl delete addon --cluster ironman-2022 --name metrics-server", ""},
	{"wait-addon-deleted", "aws eks wait addon-deleted --cluster-name ironman-2022 --addon-name metrics-server", ""},
	{"create-addon", "eksctl create addon --cluster ironman-2022 --name metrics-server --wait",
		`addon "metrics-server" active`},
	{"update-addon", "eksctl update addon --cluster ironman-2022 --name vpc-cni --version latest --wait", ""},

	{"create-addon-for-pods", "eksctl create addon --cluster ironman-2022 --name eks-pod-identity-agent --wait",
		`addon "eks-pod-identity-agent" active`},
	{"create-podidentityassociation",
		"eksctl create podidentityassociation --cluster ironman-2022 --namespace default --service-account-name app " +
			"--permission-policy-arns arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryReadOnly",
		"all tasks were completed successfully"},
	{"get-podidentityassociation", "eksctl get podidentityassociation --cluster ironman-2022", "default"},
	{"update-podidentityassociation", "eksctl update podidentityassociation -f testdata/podidentity.yaml",
		"updated role ARN"},
	{"delete-podidentityassociation",
		"eksctl delete podidentityassociation --cluster ironman-2022 --namespace default --service-account-name app",
		"all tasks were completed successfully"},

	{"create-fargateprofile", "eksctl create fargateprofile --cluster ironman-2022 --name demo --namespace fargate " +
		"--labels tier=web",
		`created Fargate profile "demo"`},
	{"get-fargateprofile", "eksctl get fargateprofile --cluster ironman-2022 -o yaml", "status: ACTIVE"},
	{"delete-fargateprofile", "eksctl delete fargateprofile --cluster ironman-2022 --name demo --wait",
		`deleted Fargate profile "demo"`},
	// With the last profile eksctl deletes the stack of the role, unless it is to wait.
	{"create-fargateprofile-of-file", "eksctl create fargateprofile -f testdata/fargate.yaml",
		`created Fargate profile "batch"`},
	{"delete-last-fargateprofile", "eksctl delete fargateprofile --cluster ironman-2022 --name batch",
		"deleting unused fargate role"},
	{"wait-fargateprofile-deleted",
		"aws eks wait fargate-profile-deleted --cluster-name ironman-2022 --fargate-profile-name batch", ""},

	{"update-cluster-logging", "eksctl utils update-cluster-logging --cluster ironman-2022 " +
		"--enable-types all --approve",
		""},
	{"update-cluster-vpc-config",
		"eksctl utils update-cluster-vpc-config --cluster ironman-2022 --private-access=true " +
			"--public-access-cidrs 198.18.0.0/15,44.203.113.0/24 --approve", ""},
	{"enable-secrets-encryption", "eksctl utils enable-secrets-encryption --cluster ironman-2022 " +
		"--key-arn KEY --approve",
		""},
	{"describe-stacks", "eksctl utils describe-stacks --cluster ironman-2022", "eksctl-ironman-2022-cluster"},
	{"describe-addon-versions", "eksctl utils describe-addon-versions --cluster ironman-2022", "coredns"},
	{"describe-addon-configuration", "eksctl utils describe-addon-configuration --name vpc-cni --version ADDON",
		"properties"},
	{"describe-cluster-versions", "eksctl utils describe-cluster-versions", "1.36"},
	{"nodegroup-health", "eksctl utils nodegroup-health --cluster ironman-2022 --name managed", ""},
	{"write-kubeconfig", "eksctl utils write-kubeconfig --cluster ironman-2022", "saved kubeconfig"},

	{"upgrade-cluster", "eksctl upgrade cluster --name ironman-2022 --version 1.36 --approve", ""},
	{"upgrade-nodegroup", "eksctl upgrade nodegroup --cluster ironman-2022 --name managed --kubernetes-version 1.36",
		""},
	{"delete-cluster", "eksctl delete cluster --name ironman-2022 --wait", "all cluster resources were deleted"},
}

// fargateSteps are the commands of the life of a cluster without nodes. eksctl has CoreDNS run on Fargate, and waits
// until it does.
var fargateSteps = []step{
	{"create-cluster", "eksctl create cluster --name stark-2022 --version 1.35 --fargate",
		`"coredns" is now scheduled onto Fargate`},
	{"create-fargateprofile", "eksctl create fargateprofile --cluster stark-2022 --namespace fargate --name demo",
		`created Fargate profile "demo"`},
	{"get-fargateprofile", "eksctl get fargateprofile --cluster stark-2022", "fp-default"},
	{"delete-fargateprofile", "eksctl delete fargateprofile --cluster stark-2022 --name demo --wait",
		`deleted Fargate profile "demo"`},
	{"wait-fargateprofile-deleted",
		"aws eks wait fargate-profile-deleted --cluster-name stark-2022 --fargate-profile-name demo", ""},
	{"delete-cluster", "eksctl delete cluster --name stark-2022 --wait", "all cluster resources were deleted"},
}

func TestEksctl(t *testing.T) {
	if !*record {
		testenv.NeedsAll(t, "it takes more than ten minutes on two busy cores")
	}
	follow(t, steps, "testdata")
}

func TestEksctlFargate(t *testing.T) { follow(t, fargateSteps, filepath.Join("testdata", "fargate")) }

// follow runs the commands of a life, or replays their recordings, which are in a directory.
func follow(t *testing.T, steps []step, recordings string) {
	t.Parallel()
	testenv.NeedsRoot(t)
	_, err := exec.LookPath("eksctl")
	if err != nil && *record {
		t.Fatal(err)
	}
	live := *record || err == nil && testenv.All()
	l := &life{Daemon: harness.Start(t), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if *record {
		l.recorder = newRecorder(t, l.Endpoint)
	}
	before := l.resources(t)
	replayer := &replayer{endpoint: l.Endpoint, config: l.Config(), translated: translation{}}
	for _, s := range steps {
		if !t.Run(s.name, func(t *testing.T) {
			recording := filepath.Join(recordings, s.name+".json")
			if live {
				l.run(t, s, recording)
			} else {
				replayer.replay(t, recording)
			}
		}) {
			t.FailNow()
		}
	}
	if diff := cmp.Diff(before, l.resources(t)); diff != "" {
		t.Errorf("eksctl leaves (+):\n%s", diff)
	}
}

// life is that of a cluster which eksctl makes.
type life struct {
	*harness.Daemon
	kubeconfig string
	recorder   *recorder
}

// run runs a step's command, and writes what it sends to a file if it is recorded.
func (l *life) run(t *testing.T, s step, recording string) {
	t.Helper()
	ctx := t.Context()
	var arguments []string
	for word := range strings.FieldsSeq(s.command) {
		switch word {
		case "KEY":
			keys, err := kms.NewFromConfig(l.Config()).ListKeys(ctx, &kms.ListKeysInput{})
			if err != nil {
				t.Fatal(err)
			}
			word = *keys.Keys[0].KeyArn
		case "ADDON":
			addon, err := eks.NewFromConfig(l.Config()).DescribeAddon(ctx,
				&eks.DescribeAddonInput{ClusterName: aws.String("ironman-2022"), AddonName: aws.String("vpc-cni")})
			if err != nil {
				t.Fatal(err)
			}
			word = *addon.Addon.AddonVersion
		}
		arguments = append(arguments, word)
	}
	command := l.Command(ctx, l.kubeconfig, arguments[0], arguments[1:]...)
	if l.recorder != nil {
		// Tokens for the cluster are requests to STS, which are for the daemon's address.
		command.Env = append(command.Env, "AWS_ENDPOINT_URL="+l.recorder.URL, "AWS_ENDPOINT_URL_STS="+l.Endpoint)
	}
	out, err := command.CombinedOutput()
	t.Logf("%s\n%s", s.command, out)
	if err != nil || !strings.Contains(string(out), s.says) {
		t.Fatalf("%v; it says nothing of %q", err, s.says)
	}
	if l.recorder != nil {
		l.recorder.write(t, recording)
	}
}

// resources returns what the account has that eksctl makes.
func (l *life) resources(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, question := range []string{
		"cloudformation list-stacks --query StackSummaries[?StackStatus!='DELETE_COMPLETE'].StackName",
		"eks list-clusters --query clusters",
		"ec2 describe-vpcs --query Vpcs[].VpcId",
		"ec2 describe-subnets --query Subnets[].SubnetId",
		"ec2 describe-security-groups --query SecurityGroups[].GroupId",
		"ec2 describe-network-interfaces --query NetworkInterfaces[].NetworkInterfaceId",
		"ec2 describe-addresses --query Addresses[].AllocationId",
		"ec2 describe-nat-gateways --query NatGateways[?State!='deleted'].NatGatewayId",
		"ec2 describe-launch-templates --query LaunchTemplates[].LaunchTemplateName",
		"ec2 describe-instances --query Reservations[].Instances[?State.Name!='terminated'].InstanceId[]",
		"autoscaling describe-auto-scaling-groups --query AutoScalingGroups[].AutoScalingGroupName",
		"iam list-roles --query Roles[?!starts_with(Path,'/aws-service-role/')&&RoleName!='operator'].RoleName",
		"iam list-instance-profiles --query InstanceProfiles[].InstanceProfileName",
		"iam list-open-id-connect-providers --query OpenIDConnectProviderList[].Arn",
	} {
		found = append(found, strings.Fields(
			l.Run("", "aws", append(strings.Fields(question), "--output", "text")...))...)
	}
	return found
}

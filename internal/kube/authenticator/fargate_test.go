package authenticator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

const fargateNodeName = "fargate-ip-10-0-1-9.eu-west-1.compute.internal"

// fargate makes a pod of role Pods, and its machine, which an edit changes first.
func (f *fixture) fargate(edit func(*record.FargatePod, *record.Instance, *record.Machine)) {
	f.t.Helper()
	pod := record.FargatePod{Account: account, Region: region, Cluster: name, ClusterID: clusterID, UID: "1",
		ID: "0123456789-capacity", InstanceID: "i-0abc", NodeName: fargateNodeName}
	instance := record.Instance{EC2Resource: record.EC2Resource{Account: account, Region: region, ID: "i-0abc"},
		Wanted: ec2types.InstanceStateNameRunning, Fargate: &record.FargateMachine{Capacity: pod.ID,
			ClusterID: clusterID, Cluster: name, NodeName: fargateNodeName,
			RoleARN: "arn:aws:iam::" + account + ":role/teams/Pods"}}
	machine := record.Machine{InstanceID: "i-0abc", State: ec2types.InstanceStateNameRunning}
	if edit != nil {
		edit(&pod, &instance, &machine)
	}
	key := record.EC2Key(account, region, instance.ID)
	f.put(f.store.Txn(f.t.Context(), record.FargatePods(f.store).CreateOp(pod.Key(), pod),
		record.Instances(f.store).CreateOp(key, instance), record.Machines(f.store).CreateOp(key, machine)))
}

// TestFargateNodesAreMachinesOfPods has sessions of a pod execution role that call themselves nodes.
func TestFargateNodesAreMachinesOfPods(t *testing.T) {
	t.Parallel()
	const none = `no Fargate pod of the cluster runs on "` + fargateNodeName + `"`
	mapped := func(username string) map[string]string {
		return map[string]string{"mapRoles": "- rolearn: arn:aws:iam::" + account + ":role/Pods\n  username: '" + username +
			"'\n  groups: [system:nodes]\n"}
	}
	template := mapped("system:node:{{SessionName}}")
	for _, test := range []struct {
		name    string
		edit    func(*record.FargatePod, *record.Instance, *record.Machine)
		entry   string // its type; empty for aws-auth
		auth    map[string]string
		role    string // Pods when empty
		session string // that of the node when empty
		denied  string
	}{
		{name: "entry", entry: "FARGATE_LINUX"},
		{name: "aws-auth", auth: template},
		{name: "raw session name", auth: mapped("system:node:{{SessionNameRaw}}")},
		{name: "machine that is not recorded yet", auth: template,
			edit: func(p *record.FargatePod, _ *record.Instance, m *record.Machine) {
				p.InstanceID, p.NodeName, m.State = "", "", ""
			}},
		{name: "another session", entry: "FARGATE_LINUX", session: "fargate-ip-10-0-1-8.eu-west-1.compute.internal",
			denied: "no Fargate pod of the cluster runs on"},
		{name: "session of another name", entry: "FARGATE_LINUX", session: "ip-10-0-1-8.eu-west-1.compute.internal",
			denied: "no Fargate pod of the cluster runs on"},
		{name: "another session in aws-auth", auth: template, session: "fargate-mallory",
			denied: "no Fargate pod of the cluster runs on"},
		{name: "name in aws-auth", auth: mapped("system:node:" + fargateNodeName), session: "mallory",
			denied: `session "mallory" is not that of the machine`},
		{name: "another role", entry: "FARGATE_LINUX", role: "Others", denied: none},
		{name: "node of a rack", entry: "HYBRID_LINUX", role: "Others", denied: none},
		{name: "pod of another cluster", entry: "FARGATE_LINUX", denied: none,
			edit: func(p *record.FargatePod, i *record.Instance, _ *record.Machine) {
				p.ClusterID, i.Fargate.ClusterID = otherID, otherID
			}},
		{name: "machine of another cluster", entry: "FARGATE_LINUX", denied: none,
			edit: func(_ *record.FargatePod, i *record.Instance, _ *record.Machine) { i.Fargate.ClusterID = otherID }},
		{name: "pod that is over", auth: template, denied: none,
			edit: func(p *record.FargatePod, _ *record.Instance, _ *record.Machine) { p.Ending = true }},
		{name: "machine that is given up", auth: template, denied: none,
			edit: func(p *record.FargatePod, _ *record.Instance, _ *record.Machine) { p.Retired = true }},
		{name: "pod with another machine", auth: template, denied: none,
			edit: func(p *record.FargatePod, _ *record.Instance, _ *record.Machine) { p.InstanceID = "i-0def" }},
		{name: "capacity of another machine", auth: template, denied: none,
			edit: func(p *record.FargatePod, _ *record.Instance, _ *record.Machine) { p.ID = "another" }},
		{name: "machine that is to end", auth: template, denied: none,
			edit: func(_ *record.FargatePod, i *record.Instance, _ *record.Machine) {
				i.Wanted = ec2types.InstanceStateNameTerminated
			}},
		{name: "machine that has ended", auth: template, denied: none,
			edit: func(_ *record.FargatePod, _ *record.Instance, m *record.Machine) {
				m.State = ec2types.InstanceStateNameTerminated
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			mode := ekstypes.AuthenticationModeConfigMap
			if test.entry != "" {
				mode = ekstypes.AuthenticationModeApi
			}
			f := newFixture(t, mode)
			f.fargate(test.edit)
			f.kube.set(test.auth)
			who, session := test.role, test.session
			if who == "" {
				who = "Pods"
			}
			if session == "" {
				session = fargateNodeName
			}
			if test.entry != "" {
				f.entry(record.AccessEntry{PrincipalARN: "arn:aws:iam::" + account + ":role/" + who, Type: test.entry})
			}
			token := f.role("/", who, session)
			var got authenticationv1.TokenReviewStatus
			eventually.Nil(t, "it is judged", func() error {
				got = f.authenticate(token)
				if got.Authenticated == (test.denied == "") && strings.Contains(got.Error, test.denied) {
					return nil
				}
				return fmt.Errorf("got %+v, want denial with %q", got, test.denied)
			})
			if test.denied == "" {
				if got.User.Username != "system:node:"+fargateNodeName || !slices.Contains(got.User.Groups, "system:nodes") {
					t.Errorf("it is %+v", got.User)
				}
			} else if text := f.log(); !strings.Contains(text, "access denied") {
				t.Errorf("the log does not say that access is denied:\n%s", text)
			}
		})
	}
}
